package memory_test

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

const patience = 10 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is two sites of one store, and what a route between them needs.
type world struct {
	t        *testing.T
	store    *memory.Store
	from, to *memory.Site
	meter    handlers.Meter
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := memory.New()
	return &world{t: t, store: s, from: s.Site("a"), to: s.Site("b")}
}

func (w *world) open(name string) handlers.Conn {
	w.t.Helper()
	dc, err := w.store.Broker().DataCenter(config.Raw{})
	require.NoError(w.t, err)
	conn, err := dc.Open(w.t.Context(), handlers.Settings{DataCenter: name, Instance: "test"})
	require.NoError(w.t, err)
	return conn
}

func (w *world) subscriber() message.Subscriber {
	w.t.Helper()
	_, options, _ := memory.DefaultConfig()
	s, err := w.open("a").Subscriber(handlers.Source{
		Route: "r", DataCenter: "a", Topic: "in", Group: "g", Window: 256,
		Backoff: lane.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond},
		Meter:   &w.meter, Health: handlers.NewHealth(nil),
	}, options)
	require.NoError(w.t, err)
	return s
}

func (w *world) destination() handlers.Destination {
	return handlers.Destination{Route: "r", DataCenter: "b", Topic: "out", Meter: &w.meter, Health: handlers.NewHealth(nil)}
}

func (w *world) publisher() message.Publisher {
	w.t.Helper()
	_, _, options := memory.DefaultConfig()
	p, err := w.open("b").Publisher(w.destination(), options)
	require.NoError(w.t, err)
	return p
}

// relay runs a route until the returned function stops it.
func (w *world) relay() (stop func()) {
	w.t.Helper()
	s, p := w.subscriber(), w.publisher()
	messages, err := s.Subscribe(context.Background(), "in")
	require.NoError(w.t, err)
	r := handlers.NewRelay(w.destination(), p, true)
	go func() {
		for msg := range messages {
			go func() {
				if r.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			}()
		}
	}()
	return func() {
		require.NoError(w.t, s.Close())
		require.NoError(w.t, p.Close())
	}
}

func (w *world) produce(lane, from, to int) {
	for i := from; i < to; i++ {
		w.from.Produce("in", lane, &record.Record{Value: []byte(strconv.Itoa(i))})
	}
}

func (w *world) committed(lane, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, w.from.Await(ctx, func() bool { return w.from.Committed("in", "g", lane) == n }))
}

// arrived gives what arrived, repeats after the first left out.
func (w *world) arrived() []string {
	var all []string
	seen := map[string]bool{}
	for _, r := range w.to.Messages("out") {
		if v := string(r.Value); !seen[v] {
			seen[v] = true
			all = append(all, v)
		}
	}
	return all
}

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

func TestMessagesCrossInOrderAndOnce(t *testing.T) {
	w := newWorld(t)
	stop := w.relay()
	w.produce(0, 0, 5000)
	w.committed(0, 5000)
	stop()
	require.Equal(t, numbers(5000), w.arrived())
	require.Equal(t, 5000, w.to.Count("out"))
}
