package rabbitmq_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// exchangedOver publishes to a queue of the test's own and reads back what a consumer gets.
func exchangedOver(t *testing.T, url string) func(*rapid.T, amqp.Publishing) *amqp.Delivery {
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	require.NoError(t, err)
	own, err := channel.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	require.NoError(t, channel.Confirm(false))
	return func(t *rapid.T, p amqp.Publishing) *amqp.Delivery {
		confirm, err := channel.PublishWithDeferredConfirm("", own.Name, true, false, p)
		require.NoError(t, err)
		require.True(t, confirm.Wait(), "refused: %#v", p)
		d, ok, err := channel.Get(own.Name, true)
		require.NoError(t, err)
		require.True(t, ok, "the message is gone: %#v", p)
		return delivered(amqp.Publishing{
			Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
			Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
			Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
		})
	}
}

func TestRabbitMQTakesAnyRecordAndGivesItBack(t *testing.T) {
	exchanged := exchangedOver(t, brokers.RabbitMQ(t, "a").URL())
	names := escapedNames(append(ownNames, record.IDKey, "CC", "BCC", record.KeyEntry, record.NullEntry, record.TimeEntry, record.HeadersEntry)...)
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range []*record.Record{anyRecord().Draw(t, "record"), read(anyDelivery(names...).Draw(t, "message"))} {
			p, err := rabbitmq.ToPublishing(r)
			require.NoError(t, err)
			if n := len(p.Expiration); 0 < n && n < 5 { // It would be gone before it is read.
				p.Expiration = "+60000"
			}
			requireDelivered(t, delivered(p), exchanged(t, p))
		}
	})
}
