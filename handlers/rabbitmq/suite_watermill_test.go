package rabbitmq_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/integration/brokers"
)

// universal prepares Watermill's own suite on a real RabbitMQ.
func universal(t *testing.T, client rabbitmq.Client, window int, exclusive bool) brokertest.PubSub {
	t.Helper()
	url := brokers.RabbitMQ(t, "a").URL()
	_, source, destination := rabbitmq.DefaultConfig()
	source.Exclusive = exclusive
	destination.QueueType = rabbitmq.Classic
	var opened atomic.Int64
	return brokertest.PubSub{
		Open: func(t *testing.T) handlers.Conn {
			t.Helper()
			conn := openAs(t, url, "suite-"+strconv.FormatInt(opened.Add(1), 10), func(c *rabbitmq.Config) { c.Client = client })
			rabbitmq.SetResend(conn.Unwrap(), time.Millisecond) // The suite nacks hundreds of times.
			return conn
		},
		Source: source, Destination: destination, Window: window,
		Create: func(topic string) error {
			conn, err := amqp.Dial(url)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			ch, err := conn.Channel()
			if err != nil {
				return err
			}
			_, err = ch.QueueDeclare(topic, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
			return err
		},
	}
}

// A queue has no groups: who reads it takes its messages from the others.

func TestWatermillsSuiteInOrder(t *testing.T) {
	universal(t, rabbitmq.Pipelined, 1, true).Run(t, tests.Features{GuaranteedOrder: true, Persistent: true, ForceShort: true})
}

func TestWatermillsSuiteAtFullWidth(t *testing.T) {
	universal(t, rabbitmq.Pipelined, 0, false).Run(t, tests.Features{Persistent: true, ForceShort: testing.Short()})
}

func TestWatermillsSuiteOnTheStockClient(t *testing.T) {
	universal(t, rabbitmq.Watermill, 1, true).Run(t, tests.Features{GuaranteedOrder: true, Persistent: true, ForceShort: true})
}
