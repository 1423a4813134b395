package lane_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

// route is a small relay on real goroutines: one for each message, and a publisher that answers as it likes.
type route struct {
	*lane.Lane
	budget *lane.Budget
	wire   chan *sending
	cancel chan struct{}
	tasks  sync.WaitGroup

	order []uint64 // First hand-overs; the lane's lock guards it.
}

// sending is one message on its way.
type sending struct {
	lane.Ticket
	first   bool
	outcome lane.Outcome // Of the last attempt.
}

func newRoute(window int, backoff lane.Backoff) *route {
	budget := lane.NewBudget(int64(window) * 100)
	return &route{
		budget: budget,
		Lane:   lane.New(lane.Settings{Window: window, Budget: budget.Part(0), Backoff: backoff}),
		wire:   make(chan *sending, window),
		cancel: make(chan struct{}),
	}
}

// feed issues n messages, each on a goroutine of its own, commits what is settled, and reports whether all of it was in time.
func (r *route) feed(n uint64, each func(*sending), deadline <-chan time.Time) bool {
	for issued := uint64(0); ; {
		s := &sending{first: true}
		if issued < n && r.Issue(&s.Ticket, 100) {
			issued++
			r.tasks.Go(func() { each(s) })
			continue
		}
		r.Committed(r.Settled())
		if state := r.State(); state.Closed || r.Drained() || issued == n && state.InFlight == 0 {
			return true
		}
		select {
		case <-r.Signal():
		case <-deadline:
			return false
		}
	}
}

// relay sends a message until it is settled or cancelled.
func (r *route) relay(s *sending) {
	for {
		if s.Enter() != nil {
			return
		}
		if !s.Enqueue(func() { r.put(s) }) {
			continue
		}
		s.Await()
		if s.outcome != lane.Refused {
			continue
		}
		if rand.IntN(2) == 0 && s.Parking() {
			s.Settle(lane.Parked)
			return
		}
	}
}

func (r *route) put(s *sending) {
	if s.first {
		r.order = append(r.order, s.Number())
	}
	s.first = false
	r.wire <- s // Has room for the whole window: it never blocks.
}

// answer is one of several goroutines of the publisher, so that confirms overtake each other.
func (r *route) answer() {
	for {
		select {
		case s := <-r.wire:
			s.outcome = lane.Confirmed
			switch n := rand.IntN(1000); {
			case n < 5:
				s.outcome = lane.Failed
			case n < 15:
				s.outcome = lane.Refused
			case n < 20:
				s.Suspend()
			}
			s.Resolve(s.outcome)
		case <-r.cancel:
			return
		}
	}
}

// finish waits for the messages' goroutines, then ends the publisher's.
func (r *route) finish(t *testing.T, deadline <-chan time.Time) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		r.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-deadline:
		require.Fail(t, "messages are stuck")
	}
	close(r.cancel)
}

func TestTenThousandMessagesOnRealGoroutines(t *testing.T) {
	const n = 10_000
	r := newRoute(512, lane.Backoff{Initial: time.Microsecond, Max: 100 * time.Microsecond})
	deadline := time.After(2 * time.Minute)
	var publisher sync.WaitGroup
	for range 4 {
		publisher.Go(r.answer)
	}
	require.True(t, r.feed(n, r.relay, deadline), "the lane is stuck: %+v", r.State())
	r.finish(t, deadline)
	publisher.Wait()
	require.EqualValues(t, n, r.Settled())
	require.Zero(t, r.budget.Used())
	require.Len(t, r.order, n)
	require.IsIncreasing(t, r.order)
}

func TestALaneThatEndsUnderLoadLetsEverybodyGo(t *testing.T) {
	for name, end := range map[string]func(*lane.Lane){"stopped": (*lane.Lane).Stop, "closed": (*lane.Lane).Close} {
		t.Run(name, func(t *testing.T) {
			r := newRoute(512, lane.Backoff{Initial: time.Microsecond, Max: 100 * time.Microsecond})
			deadline := time.After(time.Minute)
			var publisher sync.WaitGroup
			for range 4 {
				publisher.Go(r.answer)
			}
			require.True(t, r.feed(1<<62, func(s *sending) {
				if s.Number() == 3000 {
					end(r.Lane)
				}
				r.relay(s)
			}, deadline), "the lane is stuck: %+v", r.State())
			r.finish(t, deadline)
			publisher.Wait()
			require.IsIncreasing(t, r.order)
			if name == "stopped" {
				require.GreaterOrEqual(t, r.Settled(), uint64(len(r.order)))
			}
			r.Close()
			require.Zero(t, r.budget.Used())
		})
	}
}
