package kafka_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/lane"
)

// transfer relays from one Kafka topic to another, as a route does. It gives up a message that is refused for good.
type transfer struct {
	*testing.T
	source      handlers.Source
	destination handlers.Destination
	subscriber  message.Subscriber
	publisher   message.Publisher
	running     sync.WaitGroup
}

// trip is what a transfer is made of; each test changes what it needs.
type trip struct {
	from, to    *kafka.Connection
	source      handlers.Source
	destination handlers.Destination
	in          kafka.SourceConfig
	out         kafka.DestinationConfig
}

func newTransfer(t *testing.T, from, to *kafka.Connection, in, out string, change func(*trip)) *transfer {
	t.Helper()
	r := trip{from: from, to: to, source: source(in)}
	r.source.Group = "g-" + out
	r.destination = handlers.Destination{
		Route: "transfer", DataCenter: "there", Topic: out, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
		SourcePartitions: func(ctx context.Context) (int, error) { return from.Partitions(ctx, in) },
	}
	_, r.in, r.out = kafka.DefaultConfig()
	r.in.SessionTimeout = config.Duration(6 * time.Second)
	if change != nil {
		change(&r)
	}
	publisher, err := to.Publisher(r.destination, r.out)
	require.NoError(t, err)
	subscriber, err := from.Subscriber(r.source, r.in)
	require.NoError(t, err)
	messages, err := subscriber.Subscribe(context.Background(), in)
	require.NoError(t, err)
	x := &transfer{T: t, source: r.source, destination: r.destination, subscriber: subscriber, publisher: publisher}
	_, lanes := subscriber.(interface{ Lanes() map[string]lane.State })
	relay := handlers.NewRelay(r.destination, publisher, lanes)
	x.running.Go(func() {
		for msg := range messages {
			x.running.Go(func() {
				if relay.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			})
		}
	})
	t.Cleanup(x.stop)
	return x
}

// stop gives up what is in flight.
func (x *transfer) stop() {
	if a, ok := x.subscriber.(interface{ Abort() }); ok {
		a.Abort()
	}
	_ = x.publisher.Close()
	_ = x.subscriber.Close()
	x.running.Wait()
}

// arrives waits until a topic holds at least n records.
func arrives(t *testing.T, admin *kadm.Client, topic string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return held(t, admin, topic) >= n }, patience, 20*time.Millisecond, "%s holds fewer than %d", topic, n)
}

func held(t *testing.T, admin *kadm.Client, topic string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := admin.ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return int(n)
}

// caughtUp waits until the transfer has committed everything that is in its source.
func (x *transfer) caughtUp(admin *kadm.Client) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), patience)
	defer cancel()
	require.Eventually(x, func() bool {
		ends, err := admin.ListEndOffsets(ctx, x.source.Topic)
		if err != nil {
			return false
		}
		at, err := admin.FetchOffsets(ctx, x.source.Group)
		behind := false
		ends.Each(func(end kadm.ListedOffset) {
			o, ok := at.Lookup(x.source.Topic, end.Partition)
			behind = behind || end.Offset > 0 && (!ok || o.At < end.Offset)
		})
		return err == nil && !behind
	}, patience, 20*time.Millisecond, "the transfer does not finish")
}
