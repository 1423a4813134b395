package kafka_test

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/integration/brokers"
)

// universal prepares Watermill's own suite on a real Kafka.
func universal(t *testing.T, client kafka.Client, window int) brokertest.PubSub {
	t.Helper()
	address := brokers.Kafka(t, "a").Address()
	c, source, destination := kafka.DefaultConfig()
	c.Brokers, c.Client = []string{address}, client
	defaults := func() (kafka.Config, kafka.SourceConfig, kafka.DestinationConfig) { return c, source, destination }
	admin := kadm.NewClient(newClient(t, address))
	return brokertest.PubSub{
		Open: func(t *testing.T) handlers.Conn {
			dc, err := handlers.NewBroker(defaults, kafka.Open).DataCenter(rawConfig())
			require.NoError(t, err)
			conn, err := dc.Open(t.Context(), handlers.Settings{DataCenter: "kafka"})
			require.NoError(t, err)
			return conn
		},
		Source: source, Destination: destination, Window: window,
		Create: func(topic string) error {
			_, err := admin.CreateTopic(t.Context(), 4, 1, nil, topic)
			if errors.Is(err, kerr.TopicAlreadyExists) {
				return nil
			}
			return err
		},
	}
}

func TestWatermillsSuiteInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real broker")
	}
	// Short, since at window 1 each ack is a round trip, and the suite has 20,000 of them.
	universal(t, kafka.Pipelined, 1).Run(t, tests.Features{ConsumerGroups: true, GuaranteedOrder: true, Persistent: true, ForceShort: true})
}

func TestWatermillsSuiteAtFullWidth(t *testing.T) {
	universal(t, kafka.Pipelined, 0).Run(t, tests.Features{ConsumerGroups: true, Persistent: true})
}

func TestWatermillsSuiteOnTheStockClient(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real broker")
	}
	// Short, since each of the suite's hundreds of nacks costs a second.
	universal(t, kafka.Watermill, 0).Run(t, tests.Features{ConsumerGroups: true, GuaranteedOrder: true, Persistent: true, ForceShort: true})
}
