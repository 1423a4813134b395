package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/integration/brokers"
)

func promises() brokertest.Promises {
	return brokertest.Promises{Keys: true, Nulls: true, HeaderOrder: true, HeaderNulls: true, Time: time.Millisecond, Lanes: 4}
}

func TestTheSuiteOnAFakeKafka(t *testing.T) {
	w := newWorld(t, kfake.DefaultNumPartitions(4))
	p := promises()
	p.Outage = w.outage
	runSuite(t, w.address(), p)
}

func TestTheSuiteOnARealKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real broker")
	}
	b := brokers.KafkaOwn(t)
	p := promises()
	l := b.Link(t)
	p.Outage = func(t *testing.T) func() {
		l.Cut()
		return func() { require.NoError(t, l.Heal()) }
	}
	runSuite(t, l.Address(), p)
}

func runSuite(t *testing.T, address string, p brokertest.Promises) {
	t.Helper()
	c, source, destination := kafka.DefaultConfig()
	c.Brokers = []string{address}
	defaults := func() (kafka.Config, kafka.SourceConfig, kafka.DestinationConfig) { return c, source, destination }
	brokertest.Run(t, brokertest.Suite{
		Open: func(t *testing.T) handlers.Conn {
			dc, err := handlers.NewBroker(defaults, kafka.Open).DataCenter(rawConfig())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			conn, err := dc.Open(ctx, handlers.Settings{DataCenter: "kafka"})
			require.NoError(t, err)
			return conn
		},
		Source: source, Destination: destination,
		Promises: p,
		Background: []goleak.Option{
			goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*group).manage"),
			goleak.IgnoreAnyFunction("github.com/mqferry/mqferry/integration/link.(*Link).accept"),
			goleak.IgnoreAnyFunction("github.com/mqferry/mqferry/integration/link.(*connection).run"),
		},
	})
}
