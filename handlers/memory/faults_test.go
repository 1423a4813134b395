package memory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

func TestOrderedFaultsNeverLoseNorReorder(t *testing.T) {
	// The message 70 has thirty behind it on the wire when it fails for the first time.
	at70 := func(v memory.Verdict) func(*world) {
		return func(w *world) {
			w.to.OnPublish(func(_ string, r *record.Record, attempt int) memory.Verdict {
				if string(r.Value) == "70" && attempt <= 2 {
					return v
				}
				return memory.Confirm()
			})
		}
	}
	for name, order := range map[string]func(*world){
		"lost without being kept":     at70(memory.Lose(false)),
		"lost although kept":          at70(memory.Lose(true)),
		"the first three fail":        func(w *world) { w.to.FailNext(3, nil) },
		"the first is a full queue":   func(w *world) { w.to.FailNext(1, handlers.Full(errors.New("full"))) },
		"commits fail":                func(w *world) { w.from.FailCommits(3, nil) },
		"the destination was down":    func(w *world) { w.to.Down(); defer w.to.Up() },
		"the lane goes in the middle": loseLaneAt("150"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.produce(0, 0, 300)
			order(w)
			stop := w.relay()
			w.committed(0, 300)
			stop()
			got := w.arrived()
			if name == "the first is a full queue" {
				require.ElementsMatch(t, numbers(300), got, "its successors were on the wire: they may come first")
				return
			}
			require.Equal(t, numbers(300), got)
		})
	}
}

func loseLaneAt(value string) func(*world) {
	return func(w *world) {
		w.to.OnPublish(func(_ string, r *record.Record, attempt int) memory.Verdict {
			if string(r.Value) == value && attempt == 1 {
				w.from.LoseLane("in", "g", 0)
			}
			return memory.Confirm()
		})
	}
}

func TestAnUnreachableSiteSaysSoEverywhere(t *testing.T) {
	w := newWorld(t)
	p := w.publisher()
	conn := w.open("b")
	w.to.Down()

	dc, err := w.store.Broker().DataCenter(config.Raw{})
	require.NoError(t, err)
	_, err = dc.Open(t.Context(), handlers.Settings{DataCenter: "b"})
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	_, _, options := memory.DefaultConfig()
	_, err = conn.InspectDestination(t.Context(), w.destination(), options)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	msg := (&record.Record{ID: "1"}).Message(t.Context())
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(p.Publish("out", msg)))
	require.Zero(t, w.to.Count("out"))

	w.to.Up()
	require.NoError(t, p.Publish("out", msg))
	require.Equal(t, 1, w.to.Count("out"))
	require.NoError(t, p.Close())
}

func TestALateConfirmHoldsWhatComesAfterIt(t *testing.T) {
	w := newWorld(t)
	gate := make(chan struct{})
	w.to.OnPublish(func(_ string, r *record.Record, _ int) memory.Verdict {
		if string(r.Value) == "0" {
			return memory.Delay(gate)
		}
		return memory.Confirm()
	})
	w.produce(0, 0, 10)
	stop := w.relay()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.to.Await(ctx, func() bool { return w.to.Count("out") > 0 }), context.DeadlineExceeded)
	close(gate)
	w.committed(0, 10)
	stop()
	require.Equal(t, numbers(10), w.arrived())
}

func TestALaneThatIsRevokedDrainsFirst(t *testing.T) {
	w := newWorld(t)
	w.produce(0, 0, 2000)
	stop := w.relay()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 200; n <= 1000; n += 200 {
		require.NoError(t, w.to.Await(ctx, func() bool { return w.to.Count("out") >= n }))
		require.NoError(t, w.from.RevokeLane(ctx, "in", "g", 0))
	}
	w.committed(0, 2000)
	stop()
	require.Equal(t, numbers(2000), w.arrived())
	require.Equal(t, 2000, w.to.Count("out"), "a drained lane repeats nothing")
}

func TestALostLaneGoesToTheOneThatStandsBy(t *testing.T) {
	w := newWorld(t)
	w.produce(0, 0, 3)
	first, standby := w.subscriber(), w.subscriber()
	messages, err := first.Subscribe(t.Context(), "in")
	require.NoError(t, err)
	require.Equal(t, "0", string((<-messages).Payload))
	others, err := standby.Subscribe(t.Context(), "in")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	select {
	case msg := <-others:
		require.Equal(t, "0", string(msg.Payload))
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	require.NoError(t, standby.Close())
}

func TestAKeyChoosesTheLaneOrElseTheSourcesLane(t *testing.T) {
	w := newWorld(t)
	options := memory.DestinationConfig{Lanes: 4, Keep: true}
	p, err := w.open("b").Publisher(w.destination(), options)
	require.NoError(t, err)
	for id, r := range map[string]*record.Record{
		"lane 2": {Source: record.Source{Lane: "2"}},
		"lane 7": {Source: record.Source{Lane: "7"}},
		"key 2":  {Source: record.Source{Lane: "2"}, Key: []byte("k")},
		"key 7":  {Source: record.Source{Lane: "7"}, Key: []byte("k")},
	} {
		r.ID = id
		require.NoError(t, p.Publish("out", r.Message(t.Context())))
	}
	require.NoError(t, p.Close())
	lanes := map[string]string{}
	for _, r := range w.to.Messages("out") {
		lanes[r.ID] = r.Source.Lane
	}
	require.Equal(t, "2", lanes["lane 2"])
	require.Equal(t, "0", lanes["lane 7"])
	require.Equal(t, lanes["key 2"], lanes["key 7"])
	require.Len(t, lanes, 4)
}

func TestWhatIsNotKeptIsCounted(t *testing.T) {
	w := newWorld(t)
	w.from.Generate("in", 2, 100, func(int, int) *record.Record { return &record.Record{Value: []byte("x")} })
	p, err := w.open("b").Publisher(w.destination(), memory.DestinationConfig{Lanes: 1})
	require.NoError(t, err)
	s := w.subscriber()
	messages, err := s.Subscribe(t.Context(), "in")
	require.NoError(t, err)
	relay := handlers.NewRelay(w.destination(), p, true)
	for range 200 {
		msg := <-messages
		require.NoError(t, relay.Handle(msg))
		msg.Ack()
	}
	w.committed(0, 100)
	w.committed(1, 100)
	require.NoError(t, s.Close())
	require.NoError(t, p.Close())
	require.Equal(t, 200, w.to.Count("out"))
	require.Empty(t, w.to.Messages("out"))
}

func TestOptionsAreChecked(t *testing.T) {
	c, err := config.Parse("c.yml", []byte(`
datacenters: {a: {memory: {}}, b: {memory: {name: other}}}
routes: [{name: r, from: a/x, to: {datacenter: b, topic: x, lanes: 0}}]
`))
	require.NoError(t, err)
	dc, err := memory.New().Broker().DataCenter(c.DataCenters[1].Options)
	require.NoError(t, err)
	_, err = dc.DestinationOptions(c.Routes[0].To)
	require.ErrorContains(t, err, "lanes: 0 is no number of lanes")
}
