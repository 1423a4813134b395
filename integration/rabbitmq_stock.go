package integration

import (
	"fmt"

	watermillmessage "github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/record"
)

// stock is how watermill-amqp reads and writes messages: its id and its metadata are headers, all of them text.
type stock struct{}

// Marshal makes what watermill-amqp publishes.
func (stock) Marshal(m *watermillmessage.Message) (amqp.Publishing, error) {
	headers := amqp.Table{record.IDKey: m.UUID}
	for name, value := range m.Metadata {
		headers[name] = value
	}
	return amqp.Publishing{Headers: headers, Body: m.Payload, DeliveryMode: amqp.Persistent}, nil
}

// Unmarshal reads a delivery; like watermill-amqp it fails for a header that is not text.
func (stock) Unmarshal(d amqp.Delivery) (*watermillmessage.Message, error) {
	metadata := watermillmessage.Metadata{}
	for name, value := range d.Headers {
		text, is := value.(string)
		if !is {
			return nil, fmt.Errorf("header %s is a %T", name, value)
		}
		metadata[name] = text
	}
	m := watermillmessage.NewMessage(metadata[record.IDKey], d.Body)
	delete(metadata, record.IDKey)
	m.Metadata = metadata
	return m, nil
}
