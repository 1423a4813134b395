package kafka_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

const patience = 60 * time.Second

// ferry relays from a memory site to Kafka, as a route does. What is refused for good is parked at once.
type ferry struct {
	*testing.T
	site        *memory.Site
	subscriber  message.Subscriber
	publisher   message.Publisher
	destination handlers.Destination
	running     sync.WaitGroup
	gate        <-chan struct{} // Parking waits for it, unless it is nil.

	mu     sync.Mutex
	parked []string
	errs   []error
}

type option func(*handlers.Destination, *kafka.DestinationConfig)

// newFerry starts a ferry into topic at address. Its messages come from lanes of the memory site.
func newFerry(t *testing.T, address, topic string, options ...option) *ferry {
	t.Helper()
	return newFerryTo(t, connect(t, address, ""), topic, options...)
}

func newFerryTo(t *testing.T, conn *kafka.Connection, topic string, options ...option) *ferry {
	t.Helper()
	store := memory.New()
	f := &ferry{T: t, site: store.Site("memory")}
	f.destination = handlers.Destination{
		Route: "ferry", DataCenter: "kafka", Topic: topic, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
	_, _, d := kafka.DefaultConfig()
	for _, o := range options {
		o(&f.destination, &d)
	}
	var err error
	f.publisher, err = conn.Publisher(f.destination, d)
	require.NoError(t, err)
	f.subscriber = memorySubscriber(t, store)
	messages, err := f.subscriber.Subscribe(context.Background(), "in")
	require.NoError(t, err)
	relay := handlers.NewRelay(f.destination, f.publisher, true)
	f.running.Go(func() {
		for msg := range messages {
			f.running.Go(func() { f.handle(relay, msg) })
		}
	})
	t.Cleanup(f.stop)
	return f
}

func (f *ferry) handle(relay *handlers.Relay, msg *message.Message) {
	err := relay.Handle(msg)
	switch handlers.ClassOf(err) {
	case handlers.ClassPermanent, handlers.ClassRefused:
		f.mu.Lock()
		f.parked = append(f.parked, string(msg.Payload))
		f.errs = append(f.errs, err)
		f.mu.Unlock()
		if f.gate != nil {
			<-f.gate
		}
		handlers.Ticket(msg).Settle(lane.Parked)
		msg.Ack()
	case handlers.ClassCancelled:
		msg.Nack()
	default:
		msg.Ack()
	}
}

func memorySubscriber(t *testing.T, store *memory.Store) message.Subscriber {
	t.Helper()
	dc, err := store.Broker().DataCenter(config.Raw{})
	require.NoError(t, err)
	conn, err := dc.Open(t.Context(), handlers.Settings{DataCenter: "memory"})
	require.NoError(t, err)
	_, source, _ := memory.DefaultConfig()
	s, err := conn.Subscriber(handlers.Source{
		Route: "ferry", DataCenter: "memory", Topic: "in", Group: "g", Window: 4096,
		Backoff: lane.Backoff{Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond},
		Meter:   &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}, source)
	require.NoError(t, err)
	return s
}

func connect(t *testing.T, address, instance string) *kafka.Connection {
	t.Helper()
	c, _, _ := kafka.DefaultConfig()
	c.Brokers = []string{address}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := kafka.Open(ctx, c, handlers.Settings{DataCenter: "kafka", Instance: instance})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*kafka.Connection)
}

// stop gives up what is not delivered.
func (f *ferry) stop() {
	f.subscriber.(interface{ Abort() }).Abort()
	_ = f.publisher.Close()
	_ = f.subscriber.Close()
	f.running.Wait()
}

// send produces messages first to end of each of the lanes: "lane/number" followed by filler.
func (f *ferry) send(lanes, first, end, filler int) {
	for l := range lanes {
		records := make([]*record.Record, 0, end-first)
		for i := first; i < end; i++ {
			records = append(records, &record.Record{Value: payload(l, i, filler)})
		}
		f.site.Produce("in", l, records...)
	}
}

func payload(lane, number, filler int) []byte {
	return []byte(fmt.Sprintf("%d/%d/%s", lane, number, strings.Repeat("x", filler)))
}

// settled waits until everything up to n is settled in each lane.
func (f *ferry) settled(lanes, n int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	err := f.site.Await(ctx, func() bool {
		for l := range lanes {
			if f.site.Committed("in", "g", l) < n {
				return false
			}
		}
		return true
	})
	if err != nil {
		for l := range lanes {
			f.Logf("lane %d: %d of %d", l, f.site.Committed("in", "g", l), n)
		}
	}
	require.NoError(f, err, "not everything was settled")
}

// arrived reads a whole topic: for each lane, the numbers in the order of their arrival in its partition.
func arrived(t *testing.T, address, topic string) map[int][]int {
	t.Helper()
	return numbers(t, contents(t, address, topic))
}

// numbers gives for each lane the numbers in their order.
func numbers(t *testing.T, records []*kgo.Record) map[int][]int {
	t.Helper()
	all := map[int][]int{}
	for _, r := range records {
		parts := strings.SplitN(string(r.Value), "/", 3)
		l, err := strconv.Atoi(parts[0])
		require.NoError(t, err)
		n, err := strconv.Atoi(parts[1])
		require.NoError(t, err)
		all[l] = append(all[l], n)
	}
	return all
}

// contents reads whole topics.
func contents(t *testing.T, address string, topics ...string) []*kgo.Record {
	t.Helper()
	return contentsWith(t, newClient(t, address, fromStart(topics)...), topics...)
}

func fromStart(topics []string) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
}

func contentsWith(t *testing.T, client *kgo.Client, topics ...string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	require.NoError(t, err)
	var left int64
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var all []*kgo.Record
	for int64(len(all)) < left {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		all = append(all, fetches.Records()...)
	}
	return all
}

func newClient(t *testing.T, address string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// once requires that each lane's numbers arrived once and in order, but for those missing.
func once(t *testing.T, got map[int][]int, lanes, n int, missing ...string) {
	t.Helper()
	absent := map[string]bool{}
	for _, m := range missing {
		absent[m] = true
	}
	for l := range lanes {
		var want []int
		for i := range n {
			if !absent[fmt.Sprintf("%d/%d", l, i)] {
				want = append(want, i)
			}
		}
		require.Equal(t, want, got[l], "lane %d", l)
	}
}
