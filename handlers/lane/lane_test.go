package lane_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

// story is one lane in a bubble of its own, where time passes only when the story says so.
type story struct {
	*testing.T
	*lane.Lane
	tickets []*lane.Ticket
	entries []chan error
}

// tell runs a story about a lane with n tickets.
func tell(t *testing.T, s lane.Settings, n int, plot func(s *story)) {
	t.Helper()
	if s.Window == 0 {
		s.Window = max(n, 1)
	}
	synctest.Test(t, func(t *testing.T) {
		l := &story{T: t, Lane: lane.New(s)}
		defer l.Close() // Whoever still waits in Enter returns.
		for range n {
			require.NotNil(t, l.issue(1))
		}
		plot(l)
	})
}

// issue gives the next ticket, or nil when there is no room.
func (s *story) issue(size int64) *lane.Ticket {
	t := &lane.Ticket{}
	if !s.Lane.Issue(t, size) {
		return nil
	}
	s.tickets = append(s.tickets, t)
	s.entries = append(s.entries, make(chan error, 1))
	return t
}

// enter lets tickets go into Enter, each on a goroutine of its own.
func (s *story) enter(numbers ...int) {
	for _, n := range numbers {
		go func() { s.entries[n] <- s.tickets[n].Enter() }()
	}
	synctest.Wait()
}

// wantReturned requires that the ticket's Enter has returned with err.
func (s *story) wantReturned(n int, err error) {
	s.Helper()
	synctest.Wait()
	require.Lenf(s, s.entries[n], 1, "ticket %d waits", n)
	require.Equal(s, err, <-s.entries[n])
}

// wantWaiting requires that the tickets are still in Enter.
func (s *story) wantWaiting(numbers ...int) {
	s.Helper()
	synctest.Wait()
	for _, n := range numbers {
		require.Emptyf(s, s.entries[n], "ticket %d does not wait", n)
	}
}

// hand hands a ticket over that has entered, and reports whether it still had its turn.
func (s *story) hand(n int) bool {
	put := false
	ok := s.tickets[n].Enqueue(func() { put = true })
	require.Equal(s, ok, put)
	return ok
}

// send brings tickets that are not in Enter yet on the wire.
func (s *story) send(numbers ...int) {
	s.Helper()
	for _, n := range numbers {
		s.enter(n)
		s.wantReturned(n, nil)
		require.True(s, s.hand(n))
	}
}

// sent requires that the ticket has returned from Enter, and hands it over.
func (s *story) sent(n int) {
	s.Helper()
	s.wantReturned(n, nil)
	require.True(s, s.hand(n))
}

func (s *story) resolve(o lane.Outcome, numbers ...int) {
	for _, n := range numbers {
		s.tickets[n].Resolve(o)
	}
	synctest.Wait()
}

func TestTicketsAreHandedOverInOrder(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.enter(2, 1)
		s.wantWaiting(1, 2)
		s.send(0)
		s.wantReturned(1, nil)
		s.wantWaiting(2)
		require.True(s, s.hand(1))
		s.sent(2)
		require.Equal(s, 3, s.State().OnWire)
	})
}

func TestEnqueueWakesExactlyTheNext(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0)
		require.True(s, s.tickets[1].Woken())
		require.False(s, s.tickets[2].Woken())
		require.False(s, s.tickets[3].Woken())
	})
}

func TestAPublisherThatNeverEnqueuesGivesTheTurnOnWithTheOutcome(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.enter(0, 1)
		s.wantReturned(0, nil)
		s.wantWaiting(1)
		s.resolve(lane.Confirmed, 0)
		s.wantReturned(1, nil)
	})
}

func TestOnlyWhoHasTheTurnIsHandedOver(t *testing.T) {
	tell(t, lane.Settings{}, 1, func(s *story) {
		require.False(s, s.hand(0), "it has not entered")
		s.send(0)
		require.False(s, s.hand(0), "it was handed over already")
		s.resolve(lane.Confirmed, 0)
		require.False(s, s.hand(0), "it is settled")
		require.Zero(s, s.State().OnWire)
	})
}

func TestAHandOverThatFailedIsNoFailureOnTheWay(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0)
		s.enter(1)
		s.wantReturned(1, nil)
		s.resolve(lane.Refused, 0)
		require.False(s, s.hand(1))
		s.resolve(lane.Failed, 1) // The relay says so about a turn that was lost.
		require.Zero(s, s.State().Failures)
	})
}

func TestStrictKeepsOneMessageOnTheWire(t *testing.T) {
	tell(t, lane.Settings{Strict: true}, 2, func(s *story) {
		s.send(0)
		require.False(s, s.tickets[1].Woken())
		s.enter(1)
		s.wantWaiting(1)
		s.resolve(lane.Confirmed, 0)
		s.sent(1)
	})
}

func TestATicketThatIsSettledIsNotSent(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		require.True(s, s.tickets[0].Settle(lane.Dropped))
		s.enter(0)
		s.wantReturned(0, lane.ErrSettled)
		require.Equal(s, lane.Dropped, s.tickets[0].Outcome())
		require.False(s, s.tickets[0].Settle(lane.Parked))
		s.send(1)
	})
}

func TestATicketThatIsSettledWhileItWaitsReturns(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.enter(1)
		s.wantWaiting(1)
		require.True(s, s.tickets[1].Settle(lane.Parked))
		s.wantReturned(1, lane.ErrSettled)
	})
}

func TestWhatIsPendingIsNotGivenUp(t *testing.T) {
	tell(t, lane.Settings{}, 1, func(s *story) {
		s.send(0)
		require.False(s, s.tickets[0].Settle(lane.Parked))
		require.False(s, s.tickets[0].Parking())
		require.Equal(s, lane.Unsettled, s.tickets[0].Outcome())
	})
}

func TestATicketThatPanickedBeforeTheHandOverKeepsItsTurn(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.enter(0, 1)
		s.wantReturned(0, nil)
		s.enter(0)
		s.wantReturned(0, nil)
		s.wantWaiting(1)
	})
}

func TestEnteringAgainWaitsForTheOutcomeOfTheLastAttempt(t *testing.T) {
	tell(t, lane.Settings{}, 1, func(s *story) {
		s.send(0)
		s.enter(0)
		s.wantWaiting(0)
		s.resolve(lane.Confirmed, 0)
		s.wantReturned(0, lane.ErrSettled)
	})
}

func TestAwaitReturnsWithTheOutcomeAndNotBefore(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0)
		done := make(chan struct{})
		go func() {
			s.tickets[0].Await()
			close(done)
		}()
		s.Stop() // Wakes everybody, to look whether they are cancelled.
		synctest.Wait()
		select {
		case <-done:
			require.Fail(s, "the outcome is not known yet")
		default:
		}
		s.resolve(lane.Failed, 0)
		<-done
		s.tickets[0].Await() // Nothing is pending: it does not wait.
	})
}

func TestASecondWordAboutAnAttemptChangesNothing(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Refused, 0)
		s.resolve(lane.Confirmed, 0)
		require.Equal(s, lane.Unsettled, s.tickets[0].Outcome())
		s.resolve(lane.Confirmed, 1)
		s.resolve(lane.Failed, 1)
		require.Equal(s, lane.Confirmed, s.tickets[1].Outcome())
		require.Zero(s, s.State().Failures)
		require.Zero(s, s.State().OnWire)
	})
}

func TestSettledNeverPassesAGap(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1, 2, 3)
		s.resolve(lane.Confirmed, 1, 3)
		require.EqualValues(s, 0, s.Settled())
		s.resolve(lane.Confirmed, 0)
		require.EqualValues(s, 2, s.Settled())
		s.resolve(lane.Confirmed, 2)
		require.EqualValues(s, 4, s.Settled())
	})
}

func TestTheStateTellsSinceWhenNothingMoved(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		start := time.Now()
		require.True(s, start.Equal(s.State().Since))
		s.send(0, 1)
		time.Sleep(time.Minute) // The bubble's clock.
		s.resolve(lane.Confirmed, 1)
		require.True(s, start.Equal(s.State().Since), "a gap is no progress")
		s.resolve(lane.Confirmed, 0)
		require.Equal(s, time.Minute, s.State().Since.Sub(start))
		s.Committed(2)
		time.Sleep(time.Minute)
		require.NotNil(s, s.issue(1))
		require.Equal(s, 2*time.Minute, s.State().Since.Sub(start), "the lane was empty until now")
	})
}
