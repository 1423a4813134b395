package handlers_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// script is a reader whose intake the test holds in its hands.
type script struct {
	intake chan *handlers.Intake
	commit func([]handlers.Settled) error // Nil means success.
	last   func(*handlers.Intake)         // Is called when the fetching ends.
	closed atomic.Int64

	mu        sync.Mutex
	committed map[string]int
}

func (s *script) Fetch(ctx context.Context, in *handlers.Intake) error {
	s.intake <- in
	<-ctx.Done()
	if s.last != nil {
		s.last(in)
	}
	return ctx.Err()
}

func (s *script) Commit(_ context.Context, settled []handlers.Settled) error {
	if s.commit != nil {
		if err := s.commit(settled); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range settled {
		s.committed[part.Inlet.Name()] += len(part.Records)
	}
	return nil
}

func (s *script) Close() error {
	s.closed.Add(1)
	return nil
}

func (s *script) position(lane string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed[lane]
}

// scripted opens a subscriber over a script.
func (r *route) scripted(s *script) (*handlers.Subscriber, *handlers.Intake, <-chan *message.Message) {
	r.Helper()
	s.intake, s.committed = make(chan *handlers.Intake, 1), map[string]int{}
	sub := handlers.NewSubscriber(r.source, s, time.Millisecond)
	r.giveUp(sub)
	messages := r.subscribe(sub)
	return sub, done(r, s.intake), messages
}

func records(first, end, size int) []*record.Record {
	all := make([]*record.Record, 0, end-first)
	for i := first; i < end; i++ {
		value := append([]byte(strconv.Itoa(i)), make([]byte, size)...)
		all = append(all, &record.Record{ID: strconv.Itoa(i), Value: value})
	}
	return all
}

func TestACommitThatFailsIsRepeatedWithAPause(t *testing.T) {
	r := newRoute(t)
	r.source.Backoff = lane.Backoff{Initial: 10 * time.Millisecond, Max: 20 * time.Millisecond}
	var attempts atomic.Int64
	s := script{commit: func(settled []handlers.Settled) error {
		if n := attempts.Add(1); n <= 5 {
			return errors.New("not now")
		}
		return nil
	}}
	sub, in, messages := r.scripted(&s)
	in.Inlet("0", nil).Offer(records(0, 10, 0)...)
	began := time.Now()
	for _, msg := range r.receive(messages, 10) {
		msg.Ack()
	}
	require.NoError(t, done(t, start(sub.Close)))
	require.Equal(t, 10, s.position("0"))
	require.EqualValues(t, 5, r.source.Meter.CommitFails.Load())
	require.GreaterOrEqual(t, time.Since(began), 5*5*time.Millisecond)
	require.EqualValues(t, 1, s.closed.Load())
}

func TestTheBudgetBoundsWhatIsEmitted(t *testing.T) {
	r := newRoute(t)
	const budget, size = 1 << 20, 10_000
	r.source.Window = 100_000
	r.source.Budget = lane.NewBudget(budget).Part(0)
	var s script
	_, in, messages := r.scripted(&s)
	in.Inlet("0", nil).Offer(records(0, 1000, size)...)
	var got []*message.Message
	for full := false; !full; {
		select {
		case msg := <-messages:
			got = append(got, msg)
		case <-patienceOf(100):
			full = true
		}
	}
	require.LessOrEqual(t, len(got)*size, budget)
	require.LessOrEqual(t, r.source.Budget.Used(), int64(budget))
	require.Greater(t, len(got)*size, budget/4)
	for _, msg := range got {
		msg.Ack()
	}
	for range 1000 - len(got) {
		r.receive(messages, 1)[0].Ack()
	}
	eventually(t, func() bool { return r.source.Budget.Used() == 0 })
}

func TestAMessageLargerThanTheBudgetStillPassesAlone(t *testing.T) {
	r := newRoute(t)
	r.source.Budget = lane.NewBudget(1000).Part(0)
	var s script
	_, in, messages := r.scripted(&s)
	in.Inlet("0", nil).Offer(records(0, 5, 100_000)...)
	for range 5 {
		msg := r.receive(messages, 1)[0]
		r.silent(messages)
		msg.Ack()
	}
	eventually(t, func() bool { return s.position("0") == 5 })
}

func TestANackedMessageComesAgainAfterAPauseThatGrows(t *testing.T) {
	r := newRoute(t)
	r.source.Backoff = lane.Backoff{Initial: 20 * time.Millisecond, Max: 80 * time.Millisecond}
	r.source.Window = 2
	var s script
	_, in, messages := r.scripted(&s)
	in.Inlet("0", nil).Offer(records(0, 2, 0)...)
	got := r.receive(messages, 2)
	began := time.Now()
	msg := got[0]
	for range 4 {
		require.True(t, msg.Nack())
		again := r.receive(messages, 1)[0]
		require.Equal(t, msg.UUID, again.UUID)
		require.Equal(t, handlers.Ticket(got[0]), handlers.Ticket(again))
		msg = again
	}
	// Each pause is spread down to its half: 20, 40, 80, 80.
	require.GreaterOrEqual(t, time.Since(began), 110*time.Millisecond)
	require.EqualValues(t, 4, r.source.Meter.Nacked.Load())
	msg.Ack()
	got[1].Ack()
	eventually(t, func() bool { return s.position("0") == 2 })
}

func TestPushWaitsForRoomAndGivesUpWithItsContextOrItsLane(t *testing.T) {
	r := newRoute(t)
	r.source.Window = 1
	var s script
	_, in, messages := r.scripted(&s)
	hungry := make(chan struct{}, 10)
	inlet := in.Inlet("0", func() { hungry <- struct{}{} })
	require.NoError(t, inlet.Push(t.Context(), records(0, 2, 0)...))
	first := r.receive(messages, 1)[0]
	require.Equal(t, 1, inlet.Backlog())
	ctx, cancel := context.WithCancel(t.Context())
	pushed := start(func() error { return inlet.Push(ctx, records(2, 3, 0)...) })
	cancel()
	require.ErrorIs(t, done(t, pushed), context.Canceled)

	pushed = start(func() error { return inlet.Push(t.Context(), records(2, 4, 0)...) })
	first.Ack()
	r.receive(messages, 1)
	done(t, hungry)
	require.NoError(t, done(t, pushed))
	pushed = start(func() error { return inlet.Push(t.Context(), records(4, 5, 0)...) })
	inlet.Close()
	require.ErrorIs(t, done(t, pushed), lane.ErrCancelled)
}

func TestADrainedLaneIsCommittedWhileTheOthersGoOn(t *testing.T) {
	r := newRoute(t)
	var s script
	_, in, messages := r.scripted(&s)
	inlet := in.Inlet("0", nil)
	inlet.Offer(records(0, 1, 0)...)
	relay := r.relay()
	r.to.Down()
	result := start(func() error { return relay.Handle(r.receive(messages, 1)[0]) })
	eventually(t, func() bool { return r.arrive.Meter.Failed.Load() > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, inlet.Drain(ctx), context.DeadlineExceeded)
	r.to.Up()
	drained := start(func() error { return inlet.Drain(t.Context()) })
	require.NoError(t, done(t, result))
	require.NoError(t, done(t, drained))
	require.Equal(t, 1, s.position("0"))
	inlet.Close()

	other := in.Inlet("1", nil)
	other.Offer(records(0, 1, 0)...)
	r.receive(messages, 1)[0].Ack()
	eventually(t, func() bool { return s.position("1") == 1 })
}

// A reader may be told of a new lane at the very moment in which everything is given up.
func TestALaneThatIsOpenedAfterAbortEmitsNothing(t *testing.T) {
	r := newRoute(t)
	var s script
	opened := make(chan struct{})
	s.last = func(in *handlers.Intake) {
		in.Inlet("late", nil).Offer(records(0, 1, 0)...)
		close(opened)
		<-patienceOf(50)
	}
	sub, _, messages := r.scripted(&s)
	sub.Abort()
	done(t, opened)
	r.silent(messages)
	require.NoError(t, done(t, start(sub.Close)))
}

func TestAFetchThatEndsEarlyIsCalledAgain(t *testing.T) {
	r := newRoute(t)
	var calls atomic.Int64
	again := make(chan struct{})
	s := fetchFunc(func(ctx context.Context) error {
		if calls.Add(1) == 2 {
			close(again)
			<-ctx.Done()
		}
		return errors.New("no broker")
	})
	sub := handlers.NewSubscriber(r.source, s, time.Millisecond)
	r.subscribe(sub)
	done(t, again)
	_, _, err := r.source.Health.State()
	require.EqualError(t, err, "no broker")
	require.EqualValues(t, 1, r.source.Meter.Reconnects.Load())
	require.NoError(t, done(t, start(sub.Close)))
}

type fetchFunc func(context.Context) error

func (f fetchFunc) Fetch(ctx context.Context, _ *handlers.Intake) error { return f(ctx) }
func (f fetchFunc) Commit(context.Context, []handlers.Settled) error    { return nil }
func (f fetchFunc) Close() error                                        { return nil }
