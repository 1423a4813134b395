package handlers_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// route is a route between two memory sites whose parts a test can hold in its hands. Its source may be changed before it is opened.
type route struct {
	testing.TB
	from, to *memory.Site
	source   handlers.Source
	arrive   handlers.Destination
	options  memory.DestinationConfig
	broker   handlers.Broker
	patience time.Duration
}

func newRoute(t testing.TB) *route {
	store := memory.New()
	_, _, options := memory.DefaultConfig()
	return &route{
		TB: t, from: store.Site("a"), to: store.Site("b"), broker: store.Broker(), options: options, patience: patience,
		source: handlers.Source{
			Route: "r", DataCenter: "a", Topic: "in", Group: "g", Window: 256,
			Backoff: lane.Backoff{Initial: time.Millisecond, Max: 10 * time.Millisecond},
			Meter:   &handlers.Meter{}, Health: handlers.NewHealth(nil),
		},
		arrive: handlers.Destination{
			Route: "r", DataCenter: "b", Topic: "out", Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
		},
	}
}

func (r *route) conn(name string) handlers.Conn {
	r.Helper()
	dc, err := r.broker.DataCenter(config.Raw{})
	require.NoError(r, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: name})
	require.NoError(r, err)
	return conn
}

// subscriber opens the source. It is given up when the test ends.
func (r *route) subscriber() *handlers.Subscriber {
	r.Helper()
	_, options, _ := memory.DefaultConfig()
	s, err := r.conn("a").Subscriber(r.source, options)
	require.NoError(r, err)
	r.giveUp(s.(*handlers.Subscriber))
	return s.(*handlers.Subscriber)
}

func (r *route) giveUp(s *handlers.Subscriber) {
	r.Cleanup(func() {
		s.Abort()
		_ = s.Close()
	})
}

func (r *route) subscribe(s message.Subscriber) <-chan *message.Message {
	r.Helper()
	messages, err := s.Subscribe(context.Background(), r.source.Topic)
	require.NoError(r, err)
	return messages
}

func (r *route) publisher() message.Publisher {
	r.Helper()
	p, err := r.conn("b").Publisher(r.arrive, r.options)
	require.NoError(r, err)
	r.Cleanup(func() { _ = p.Close() })
	return p
}

func (r *route) relay() *handlers.Relay {
	r.Helper()
	return handlers.NewRelay(r.arrive, r.publisher(), true)
}

// produce puts the numbers from first up to, not including, end into a lane.
func (r *route) produce(lane, first, end int) {
	for i := first; i < end; i++ {
		r.from.Produce(r.source.Topic, lane, &record.Record{Value: []byte(strconv.Itoa(i))})
	}
}

// committed waits until the group has acked n messages of a lane.
func (r *route) committed(lane, n int) {
	r.Helper()
	r.await(r.from, func() bool { return r.position(lane) == n })
}

func (r *route) position(lane int) int { return r.from.Committed(r.source.Topic, r.source.Group, lane) }

func (r *route) await(s *memory.Site, reached func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), r.patience)
	defer cancel()
	require.NoError(r, s.Await(ctx, reached), "position %d, arrived %d", r.position(0), r.to.Count("out"))
}

// arrivals gives the numbers that arrived in a lane of the destination.
func (r *route) arrivals(lane string) []int {
	r.Helper()
	var all []int
	for _, got := range r.to.Messages("out") {
		if got.Source.Lane == lane {
			n, err := strconv.Atoi(string(got.Value))
			require.NoError(r, err)
			all = append(all, n)
		}
	}
	return all
}

func (r *route) receive(messages <-chan *message.Message, n int) []*message.Message {
	r.Helper()
	deadline := time.After(patience)
	received := make([]*message.Message, 0, n)
	for len(received) < n {
		select {
		case msg, ok := <-messages:
			require.True(r, ok, "the channel was closed")
			received = append(received, msg)
		case <-deadline:
			require.FailNow(r, "messages are missing", "%d of %d came", len(received), n)
		}
	}
	return received
}

// silent fails the test when a message comes within a while.
func (r *route) silent(messages <-chan *message.Message) {
	r.Helper()
	select {
	case msg, ok := <-messages:
		if ok {
			require.FailNow(r, "a message came that should not", "%s", msg.Payload)
		}
	case <-time.After(100 * time.Millisecond):
	}
}

// done waits for one value of a channel.
func done[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing happens")
		panic("not reached")
	}
}

// start runs do in a goroutine.
func start(do func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- do() }()
	return result
}

func eventually(t testing.TB, reached func() bool) {
	t.Helper()
	require.Eventually(t, reached, patience, time.Millisecond)
}

func span(first, end int) []int {
	all := make([]int, 0, end-first)
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

// firsts leaves repeats out.
func firsts(all []int) []int {
	seen := map[int]bool{}
	var once []int
	for _, n := range all {
		if !seen[n] {
			seen[n] = true
			once = append(once, n)
		}
	}
	return once
}

func patienceOf(milliseconds int) <-chan time.Time {
	return time.After(time.Duration(milliseconds) * time.Millisecond)
}
