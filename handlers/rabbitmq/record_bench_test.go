package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
)

// typical is what most messages of an application look like.
func typical() *amqp.Delivery {
	return delivered(amqp.Publishing{
		Headers: amqp.Table{
			record.IDKey: "4f6c1c0a-6b7c-4b60-9a3e-0b7a3a8f2a11", "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "origin": "shop",
		},
		MessageId: "4f6c1c0a-6b7c-4b60-9a3e-0b7a3a8f2a11", ContentType: "application/json", DeliveryMode: amqp.Persistent,
		Timestamp: time.Unix(1_700_000_000, 0), Body: make([]byte, 1024),
	})
}

// messages are those that differ in what has to be done for them.
func messages() map[string]*amqp.Delivery {
	plain := typical()
	plain.Headers, plain.MessageId, plain.ContentType = nil, "", ""
	dead := typical()
	dead.Headers["x-death"], dead.Headers["x-first-death-reason"] = death(), "rejected"
	return map[string]*amqp.Delivery{"plain": plain, "typical": typical(), "dead": dead}
}

func BenchmarkFromDelivery(b *testing.B) {
	for name, d := range messages() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(d)
			}
		})
	}
}

func BenchmarkToPublishing(b *testing.B) {
	records := map[string]*record.Record{"kafka": {
		ID: "id-1", Key: []byte("customer-4711"), Value: make([]byte, 1024), Time: time.UnixMilli(1_700_000_000_123),
		Headers: []record.Header{{Key: "trace", Value: make([]byte, 55)}, {Key: "content-type", Value: []byte("application/json")}},
	}}
	for name, d := range messages() {
		records[name] = read(d)
	}
	for name, r := range records {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rabbitmq.ToPublishing(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
