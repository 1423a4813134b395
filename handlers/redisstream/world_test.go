package redisstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/handlers/redisstream"
)

const (
	patience = 60 * time.Second
	group    = "mqferry-test"
)

// open connects as the router does, with the types of the options erased.
func open(t testing.TB, address, instance string, changes ...func(*redisstream.Config)) handlers.Conn {
	t.Helper()
	broker := handlers.NewBroker(
		func() (redisstream.Config, redisstream.SourceConfig, redisstream.DestinationConfig) {
			c, s, d := redisstream.DefaultConfig()
			if address != "" {
				c.Address = []string{address}
			}
			for _, change := range changes {
				change(&c)
			}
			return c, s, d
		},
		redisstream.Open)
	dc, err := broker.DataCenter(config.Raw{})
	require.NoError(t, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: "here", Instance: instance})
	require.NoError(t, err)
	return conn
}

// world is two ends at Redis servers, with streams of its own, and what a test wants to change of them.
type world struct {
	testing.TB
	from, to    string // Addresses.
	in, out     string // Streams.
	source      handlers.Source
	sourceOwn   redisstream.SourceConfig
	destination handlers.Destination
	destOwn     redisstream.DestinationConfig
	change      []func(*redisstream.Config) // Of both data centers.
	client      *redis.Client               // At the source, directly.
	there       *redis.Client               // At the destination, directly.
}

func newWorld(t testing.TB, from, to string) *world {
	t.Helper()
	w := &world{TB: t, from: from, to: to}
	id := fmt.Sprintf("%08x", rand.Uint32())
	w.in, w.out = "in-"+id, "out-"+id
	_, w.sourceOwn, w.destOwn = redisstream.DefaultConfig()
	w.source = handlers.Source{
		Route: "test", DataCenter: "here", Topic: w.in, Group: group, Window: 1000, Bytes: 64 << 20,
		Backoff: lane.Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		Meter:   &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
	w.destination = handlers.Destination{
		Route: "test", DataCenter: "there", Topic: w.out, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
	w.client = redis.NewClient(&redis.Options{Addr: from, MaxRetries: -1})
	w.there = redis.NewClient(&redis.Options{Addr: to, MaxRetries: -1})
	t.Cleanup(func() {
		_ = w.client.Del(context.Background(), w.in).Err()
		_ = w.there.Del(context.Background(), w.out).Err()
		_ = w.client.Close()
		_ = w.there.Close()
	})
	return w
}

// subscriber makes the source's subscriber for an instance. At the end of the test it is given up if it is still open.
func (w *world) subscriber(instance string) message.Subscriber {
	w.Helper()
	conn := open(w, w.from, instance, w.change...)
	s, err := conn.Subscriber(w.source, w.sourceOwn)
	require.NoError(w, err)
	w.Cleanup(func() {
		abort(s)
		_ = s.Close()
		_ = conn.Close()
	})
	return s
}

func abort(s message.Subscriber) {
	if s, ok := s.(interface{ Abort() }); ok {
		s.Abort()
	}
}

func (w *world) subscribe(s message.Subscriber) <-chan *message.Message {
	w.Helper()
	messages, err := s.Subscribe(context.Background(), w.in)
	require.NoError(w, err)
	return messages
}

func (w *world) publisher() message.Publisher {
	w.Helper()
	conn := open(w, w.to, "publisher", w.change...)
	p, err := conn.Publisher(w.destination, w.destOwn)
	require.NoError(w, err)
	w.Cleanup(func() {
		_ = p.Close()
		_ = conn.Close()
	})
	return p
}

// relay runs a route from the source to the destination until stop is called, which stops it cleanly.
func (w *world) relay() (stop func()) {
	w.Helper()
	return w.relayTo(w.publisher())
}

func (w *world) relayTo(p message.Publisher) (stop func()) {
	w.Helper()
	s := w.subscriber("relay")
	messages := w.subscribe(s)
	_, lanes := s.(interface{ Abort() })
	relay := handlers.NewRelay(w.destination, p, lanes)
	var running sync.WaitGroup
	running.Go(func() {
		for msg := range messages {
			running.Go(func() {
				if relay.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			})
		}
	})
	return func() {
		w.Helper()
		w.within("the stop", func() {
			require.NoError(w, s.Close())
			running.Wait()
			require.NoError(w, p.Close())
		})
	}
}

func (w *world) within(what string, do func()) {
	w.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(w, what+" does not end")
	}
}

func (w *world) eventually(reached func() bool, what string) {
	w.Helper()
	require.Eventually(w, reached, patience, 2*time.Millisecond, what)
}

// produce adds entries with the numbers from first up to, not including, end, as a stock Watermill program would.
func (w *world) produce(first, end int) {
	w.Helper()
	for first < end {
		pipeline := w.client.Pipeline()
		for range min(1000, end-first) {
			pipeline.XAdd(context.Background(), &redis.XAddArgs{Stream: w.in, Values: []any{
				record.IDKey, "id-" + strconv.Itoa(first), "metadata", "", "payload", strconv.Itoa(first),
			}})
			first++
		}
		_, err := pipeline.Exec(context.Background())
		require.NoError(w, err)
	}
}

// arrived lists the numbers at the destination, and those of them that came for the first time.
func (w *world) arrived() (all, first []int) {
	w.Helper()
	entries, err := w.there.XRange(context.Background(), w.out, "-", "+").Result()
	require.NoError(w, err)
	seen := map[int]bool{}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Values["payload"].(string))
		require.NoError(w, err)
		all = append(all, n)
		if !seen[n] {
			seen[n] = true
			first = append(first, n)
		}
	}
	return all, first
}

func (w *world) count() int {
	n, err := w.there.XLen(context.Background(), w.out).Result()
	if err != nil {
		return 0
	}
	return int(n)
}

// settled waits until so many messages are acked at the source, and nothing is pending.
func (w *world) settled(n int) {
	w.Helper()
	w.eventually(func() bool { return int(w.source.Meter.Committed.Load()) >= n && w.pending() == 0 }, "not everything was acked")
}

func (w *world) pending() int {
	w.Helper()
	p, err := w.client.XPending(context.Background(), w.in, w.source.Group).Result()
	if err != nil {
		return -1
	}
	return int(p.Count)
}

// receive takes n messages.
func (w *world) receive(messages <-chan *message.Message, n int) []*message.Message {
	w.Helper()
	deadline := time.After(patience)
	got := make([]*message.Message, 0, n)
	for len(got) < n {
		select {
		case msg, ok := <-messages:
			require.True(w, ok, "the subscription ended after %d of %d", len(got), n)
			got = append(got, msg)
		case <-deadline:
			require.FailNow(w, "messages are missing", "%d of %d came", len(got), n)
		}
	}
	return got
}

// silent fails the test when a message comes within a while.
func (w *world) silent(messages <-chan *message.Message, while time.Duration) {
	w.Helper()
	select {
	case msg, ok := <-messages:
		require.False(w, ok, "a message came that should not: %v", msg)
	case <-time.After(while):
	}
}

func (w *world) numbers(messages []*message.Message) []int {
	w.Helper()
	all := make([]int, len(messages))
	for i, msg := range messages {
		n, err := strconv.Atoi(string(msg.Payload))
		require.NoError(w, err)
		all[i] = n
	}
	return all
}

func ack(messages ...*message.Message) {
	for _, msg := range messages {
		msg.Ack()
	}
}

func span(first, end int) []int {
	all := make([]int, 0, end-first)
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

func newMeter() *handlers.Meter { return &handlers.Meter{} }
