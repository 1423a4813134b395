package rabbitmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestRabbitMQKeepsEveryPromise(t *testing.T) {
	for kind, end := range map[rabbitmq.QueueType]func(*brokers.Broker, testing.TB){
		rabbitmq.Classic: (*brokers.Broker).Kill,
		// A quorum queue that was made within the last second before a crash is of no use afterwards, in RabbitMQ 3.10.
		rabbitmq.Quorum: (*brokers.Broker).Stop,
	} {
		t.Run(string(kind), func(t *testing.T) {
			if kind != rabbitmq.Classic {
				brokers.Long(t)
			}
			server := brokers.RabbitMQOwn(t)
			conformance(t, server.URL(), kind, func(t *testing.T) func() {
				end(server, t)
				return func() { server.Start(t) }
			})
		})
	}
}

func conformance(t *testing.T, url string, kind rabbitmq.QueueType, outage func(*testing.T) func()) {
	t.Helper()
	_, source, destination := rabbitmq.DefaultConfig()
	destination.QueueType = kind
	brokertest.Run(t, brokertest.Suite{
		Open: func(t *testing.T) handlers.Conn {
			t.Helper()
			if strings.HasSuffix(t.Name(), "a_group_of_its_own_reads_everything") {
				t.Skip("a queue has no groups")
			}
			return stamping{open(t, url, nil)}
		},
		Source: source, Destination: destination, Patience: 60 * time.Second,
		Promises: brokertest.Promises{
			Keys: true, Nulls: true, HeaderOrder: true, HeaderNulls: true, Time: time.Nanosecond, Outage: outage,
		},
		Background: []goleak.Option{goleak.IgnoreAnyFunction("github.com/mqferry/mqferry/integration/process.(*Process).run")},
	})
}

// stamping gives a time to records that have none, as other brokers do. RabbitMQ does not, and that a message has none is told in a
// header, which the suite does not expect.
type stamping struct{ handlers.Conn }

func (s stamping) Publisher(d handlers.Destination, o handlers.Options) (message.Publisher, error) {
	p, err := s.Conn.Publisher(d, o)
	return stampingPublisher{p}, err
}

type stampingPublisher struct{ message.Publisher }

func (p stampingPublisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		r := *record.Outgoing(msg)
		if r.Time.IsZero() {
			r.Time = time.Now().Truncate(time.Second)
			msg.SetContext(record.With(msg.Context(), &r))
		}
	}
	return p.Publisher.Publish(topic, messages...)
}
