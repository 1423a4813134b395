package handlers_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

// halfSent is a route with ten messages: five are sent and await their confirm, five are still in a middleware.
type halfSent struct {
	*route
	subscriber *handlers.Subscriber
	messages   []*message.Message
	confirm    chan struct{} // To be closed.
	results    []<-chan error
	relay      *handlers.Relay
}

func newHalfSent(t *testing.T) *halfSent {
	h := &halfSent{route: newRoute(t), confirm: make(chan struct{})}
	h.source.Window = 10
	h.source.Budget = lane.NewBudget(1 << 20).Part(0)
	h.to.OnPublish(func(_ string, got *record.Record, _ int) memory.Verdict {
		if string(got.Value) == "0" {
			return memory.Delay(h.confirm)
		}
		return memory.Confirm()
	})
	h.produce(0, 0, 20)
	h.subscriber = h.route.subscriber()
	h.messages = h.receive(h.subscribe(h.subscriber), 10)
	h.relay = h.route.relay()
	for _, msg := range h.messages[:5] {
		h.handle(msg)
	}
	eventually(t, func() bool { return h.subscriber.Lanes()["0"].OnWire == 5 })
	return h
}

func (h *halfSent) handle(msg *message.Message) {
	h.results = append(h.results, start(func() error {
		err := h.relay.Handle(msg)
		if err != nil {
			msg.Nack()
			return err
		}
		msg.Ack()
		return nil
	}))
}

// again reads what the source delivers to the next subscriber.
func (h *halfSent) again(n int) []int {
	all := make([]int, 0, n)
	for _, msg := range h.receive(h.subscribe(h.route.subscriber()), n) {
		all = append(all, int(msg.Payload[0]-'0'))
	}
	return all
}

func TestACleanStopSettlesWhatWasSentAndRepeatsOnlyWhatWasNot(t *testing.T) {
	h := newHalfSent(t)
	closed := start(h.subscriber.Close)
	eventually(t, func() bool { return h.subscriber.Lanes()["0"].Stopped })
	for _, msg := range h.messages[5:] {
		h.handle(msg)
	}
	for _, result := range h.results[5:] {
		err := done(t, result)
		require.Equal(t, handlers.ClassCancelled, handlers.ClassOf(err))
		require.ErrorIs(t, err, context.Canceled, "so that a Watermill router knows it")
	}
	select {
	case <-closed:
		require.FailNow(t, "closed before everything that was sent is settled")
	case <-patienceOf(50):
	}
	close(h.confirm)
	for _, result := range h.results[:5] {
		require.NoError(t, done(t, result))
	}
	require.NoError(t, done(t, closed))
	require.Equal(t, 5, h.position(0))
	require.EqualValues(t, 5, h.source.Meter.Committed.Load())
	require.Zero(t, h.source.Budget.Used(), "also what was not sent gives its memory back")
	for _, msg := range h.messages {
		require.NoError(t, msg.Context().Err(), "a clean stop cancelled a message's context")
	}
	require.Equal(t, span(5, 10), h.again(5))
	require.Equal(t, span(0, 5), h.arrivals("0"))
}

func TestAbortGivesTheLanesUpAtOnce(t *testing.T) {
	h := newHalfSent(t)
	waiting := start(func() error { return h.relay.Handle(h.messages[7]) })
	h.subscriber.Abort()
	require.Equal(t, handlers.ClassCancelled, handlers.ClassOf(done(t, waiting)))
	require.NoError(t, done(t, start(h.subscriber.Close)))
	require.Error(t, h.messages[9].Context().Err(), "whoever works on it may stop")
	close(h.confirm)
	for _, result := range h.results {
		require.NoError(t, done(t, result), "a settled outcome is a success, whatever became of the lane")
	}
	require.Equal(t, 5, h.to.Count("out"))
	require.Zero(t, h.position(0))
	require.Zero(t, h.source.Budget.Used())
	require.Equal(t, span(0, 5), h.again(5))
}

func TestAbortEndsACloseThatWaits(t *testing.T) {
	h := newHalfSent(t)
	closed := start(h.subscriber.Close)
	eventually(t, func() bool { return h.subscriber.Lanes()["0"].Stopped })
	h.subscriber.Abort()
	require.NoError(t, done(t, closed))
	require.Zero(t, h.position(0))
	close(h.confirm)
}

func TestTheEndOfTheSubscribeContextStopsTheIntakeAsCloseDoes(t *testing.T) {
	r := newRoute(t)
	r.produce(0, 0, 100)
	ctx, cancel := context.WithCancel(context.Background())
	messages, err := r.subscriber().Subscribe(ctx, "in")
	require.NoError(t, err)
	relay := r.relay()
	for _, msg := range r.receive(messages, 10) {
		require.NoError(t, relay.Handle(msg))
		require.NoError(t, msg.Context().Err())
	}
	cancel()
	for range messages { //nolint:revive // Until it is closed.
	}
	require.Equal(t, 10, r.position(0))
}

func TestAMessageThatFailedBeforeTheStopIsSettledBeforeItEnds(t *testing.T) {
	// It was sent once, so it may be stored: it is emitted again until it is settled.
	r := newRoute(t)
	refused := false
	r.to.OnPublish(func(_ string, _ *record.Record, attempt int) memory.Verdict {
		if refused = attempt == 1; refused {
			return memory.Refuse(handlers.Refused(context.DeadlineExceeded))
		}
		return memory.Confirm()
	})
	r.produce(0, 0, 2)
	s := r.subscriber()
	messages := r.subscribe(s)
	relay := r.relay()
	got := r.receive(messages, 2)
	require.Error(t, relay.Handle(got[0]))
	closed := start(s.Close)
	eventually(t, func() bool { return s.Lanes()["0"].Stopped })
	got[0].Nack()
	again := r.receive(messages, 1)[0]
	require.Equal(t, got[0].UUID, again.UUID)
	require.NoError(t, relay.Handle(again))
	require.NoError(t, done(t, closed))
	require.Equal(t, 1, r.position(0))
}
