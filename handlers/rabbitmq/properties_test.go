package rabbitmq_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
)

func TestPropertiesAreHeadersThatMiddlewareReadsAndChanges(t *testing.T) {
	d := delivered(amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "gzip", Priority: 5, CorrelationId: "c", ReplyTo: "r", Expiration: "60000", Type: "t", AppId: "a",
		UserId: "guest", DeliveryMode: amqp.Transient, MessageId: "m", Headers: amqp.Table{"CC": []any{"other"}, "n": int32(7)}, Timestamp: time.Unix(5, 0),
	})
	d.Exchange, d.RoutingKey = "events", "a.b"
	msg := read(d).Message(context.Background())
	require.Equal(t, "m", msg.UUID)
	require.Equal(t, message.Metadata{
		"mqferry_content_type": "text/plain", "mqferry_content_encoding": "gzip", "mqferry_priority": "5", "mqferry_correlation_id": "c",
		"mqferry_reply_to": "r", "mqferry_expiration": "60000", "mqferry_type": "t", "mqferry_app_id": "a", "mqferry_user_id": "guest",
		"mqferry_delivery_mode": "1", "mqferry_message_id": "m", "mqferry_cc": `["other"]`, "mqferry_exchange": "events",
		"mqferry_routing_key": "a.b", "n": "7",
	}, msg.Metadata)

	msg.Metadata.Set("mqferry_content_type", "text/html")
	delete(msg.Metadata, "mqferry_expiration")
	msg.Metadata.Set("mqferry_priority", "high")
	msg.Metadata.Set("n", "8")
	msg.UUID = "m-2"
	p, err := rabbitmq.ToPublishing(record.Outgoing(msg))
	require.NoError(t, err)
	require.Equal(t, amqp.Publishing{
		ContentType: "text/html", ContentEncoding: "gzip", CorrelationId: "c", ReplyTo: "r", Type: "t", AppId: "a",
		DeliveryMode: amqp.Persistent, MessageId: "m", Timestamp: time.Unix(5, 0), Body: []byte{},
		Headers: amqp.Table{
			record.IDKey: "m-2", "n": "8", "mqferry_priority": "high", "mqferry_cc": []any{"other"}, "mqferry_user_id": "guest",
			"mqferry_delivery_mode": "1",
		},
	}, p)
}

func TestMessageIDIsWhereItWas(t *testing.T) {
	for name, c := range map[string]struct {
		property, header, id string
		declared             []string
	}{
		"both, equal":     {"m", "m", "m", nil},
		"only property":   {"m", "", "m", []string{"m"}},
		"only the header": {"", "w", "w", []string{""}},
		"both, different": {"m", "w", "w", []string{"m"}},
		"neither":         {"", "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := amqp.Publishing{MessageId: c.property, DeliveryMode: amqp.Persistent, Timestamp: time.Unix(5, 0), Body: []byte{}}
			if c.header != "" {
				p.Headers = amqp.Table{record.IDKey: c.header}
			}
			r := read(delivered(p))
			require.Equal(t, c.id, r.ID)
			var declared []string
			for _, h := range r.Headers {
				require.Equal(t, record.MessageIDEntry, h.Key)
				declared = append(declared, string(h.Value))
			}
			require.Equal(t, c.declared, declared)
			requireDelivered(t, delivered(p), published(t, r))
		})
	}
}

func TestPropertyThatRabbitMQWouldRefuseStaysAHeader(t *testing.T) {
	for name, values := range map[string][]string{
		record.ReplyToEntry:      {"amq.rabbitmq.reply-to", ""},
		record.ExpirationEntry:   {"abc", "-1", "5x", " 5", "315360000001", "99999999999999999999", ""},
		record.PriorityEntry:     {"0", "256", "-1", "05", "high"},
		record.TimestampEntry:    {"5", "-05", "now"},
		record.UserIDEntry:       {"guest"},
		record.DeliveryModeEntry: {"1"},
	} {
		for _, value := range values {
			r := &record.Record{ID: "id", Value: []byte{}, Headers: []record.Header{{Key: name, Value: []byte(value)}}, Time: time.Unix(5, 0)}
			d := published(t, r)
			require.Equal(t, value, d.Headers[name], name)
			want := delivered(amqp.Publishing{MessageId: "id", Headers: d.Headers, DeliveryMode: amqp.Persistent, Timestamp: time.Unix(5, 0), Body: []byte{}})
			requireDelivered(t, want, d)
			requireSame(t, r, read(d))
		}
	}
}

func TestTimestampIsTheTimeAndWhatItCannotHoldIsDeclared(t *testing.T) {
	for name, c := range map[string]struct {
		time      time.Time
		timestamp time.Time
		declared  any
	}{
		"whole seconds":        {time.Unix(5, 0), time.Unix(5, 0), nil},
		"Kafka's milliseconds": {time.UnixMilli(5123), time.Unix(5, 0), "5123"},
		"finer than that":      {time.Unix(5, 1), time.Unix(5, 0), "5000.000001"},
		"before 1970":          {time.Unix(-5, 0), time.Time{}, "-5000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &record.Record{Value: []byte{}, Time: c.time}
			d := published(t, r)
			require.True(t, c.timestamp.Equal(d.Timestamp))
			require.Equal(t, c.declared, d.Headers[record.TimeEntry])
			requireSame(t, r, read(d))

			d.Timestamp = time.Unix(7, 0)
			require.True(t, read(d).Time.Equal(d.Timestamp), "a timestamp that has been set since wins")
		})
	}
}
