package lane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

func TestAfterABreakWhatIsPendingResolvesFirst(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1, 2)
		s.resolve(lane.Failed, 1)
		s.enter(1, 3)
		s.wantWaiting(1, 3)
		s.resolve(lane.Confirmed, 0)
		s.wantWaiting(1, 3)
		s.resolve(lane.Failed, 2)
		s.wantReturned(1, nil)
		s.wantWaiting(3)
	})
}

func TestAfterABreakOneProbeGoesAloneUntilOneIsConfirmed(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Failed, 0, 1)
		s.enter(0, 1, 2, 3)
		s.sent(0)
		s.wantWaiting(1, 2, 3)
		require.True(s, s.State().Probing)
		s.resolve(lane.Confirmed, 0)
		require.False(s, s.State().Probing)
		s.sent(1)
		s.sent(2)
		s.sent(3)
	})
}

func TestALateConfirmDoesNotOpenTheWidth(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Failed, 0)
		s.resolve(lane.Confirmed, 1)
		require.True(s, s.State().Probing)
		s.enter(0, 2)
		s.sent(0)
		s.wantWaiting(2)
	})
}

func TestAProbeThatIsParkedMakesTheNextOneTheProbe(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.send(0)
		s.resolve(lane.Failed, 0)
		s.enter(1, 2)
		s.wantWaiting(1, 2)
		require.True(s, s.tickets[0].Settle(lane.Parked))
		s.sent(1)
		s.wantWaiting(2)
		require.True(s, s.State().Probing)
	})
}

func TestAProbeThatIsRefusedStaysTheProbe(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0)
		s.resolve(lane.Failed, 0)
		s.send(0)
		s.enter(1)
		s.resolve(lane.Refused, 0)
		s.wantWaiting(1)
		require.True(s, s.State().Probing)
		s.send(0)
	})
}

func TestABreakFailsTheHandOverThatIsUnderWay(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0)
		s.enter(1)
		s.wantReturned(1, nil)
		s.resolve(lane.Failed, 0)
		require.False(s, s.hand(1))
		s.enter(0, 1)
		s.sent(0)
		s.wantWaiting(1)
	})
}

// A hand-over that failed must not keep the turn: the one that comes before it may have passed it meanwhile.
func TestAHandOverThatFailedLetsTheLaneGoOn(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.send(0)
		s.enter(1)
		s.wantReturned(1, nil)
		s.resolve(lane.Failed, 0)
		s.send(0)
		s.resolve(lane.Confirmed, 0)
		require.False(s, s.hand(1))
		s.enter(2, 1)
		s.sent(1)
		s.sent(2)
	})
}

func TestABreakWakesNobodyButTheProbe(t *testing.T) {
	tell(t, lane.Settings{}, 100, func(s *story) {
		s.send(0)
		s.enter(1)
		s.sent(1)
		require.True(s, s.tickets[2].Woken(), "its turn has come")
		s.resolve(lane.Failed, 1)
		s.resolve(lane.Failed, 0)
		time.Sleep(time.Second) // The bubble's clock.
		for n := 3; n < 100; n++ {
			require.Falsef(s, s.tickets[n].Woken(), "ticket %d", n)
		}
	})
}

func TestNothingAboveARefusedTicketIsSentUntilItIsSettled(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1, 2)
		s.resolve(lane.Refused, 1)
		s.enter(3)
		s.resolve(lane.Confirmed, 0, 2)
		s.wantWaiting(3)
		require.True(s, s.State().Held)
		s.send(1)
		s.wantWaiting(3)
		s.resolve(lane.Confirmed, 1)
		require.False(s, s.State().Held)
		s.sent(3)
	})
}

func TestTicketsBelowARefusedOneMayGo(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1, 2, 3)
		s.resolve(lane.Refused, 2, 1, 3)
		s.enter(2, 3)
		s.send(1)
		s.wantWaiting(2, 3)
		s.resolve(lane.Confirmed, 1)
		s.sent(2)
		s.wantWaiting(3)
		require.False(s, s.tickets[2].Settle(lane.Parked))
		s.resolve(lane.Refused, 2)
		require.True(s, s.tickets[2].Settle(lane.Parked))
		s.sent(3)
	})
}

func TestAParkedTicketLeavesTheFenceOfTheOneBelow(t *testing.T) {
	tell(t, lane.Settings{}, 4, func(s *story) {
		s.send(0, 1, 2)
		s.resolve(lane.Refused, 0, 2, 1)
		require.True(s, s.tickets[1].Settle(lane.Parked))
		s.send(0)
		s.enter(2, 3)
		s.wantWaiting(2, 3)
		s.resolve(lane.Confirmed, 0)
		s.sent(2)
		s.wantWaiting(3)
	})
}

func TestARefusalFailsTheHandOverOfWhatIsAbove(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0)
		s.enter(1)
		s.wantReturned(1, nil)
		s.resolve(lane.Refused, 0)
		require.False(s, s.hand(1))
	})
}

func TestARefusedTicketHoldsTheLaneThroughABreak(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Refused, 1)
		s.resolve(lane.Failed, 0)
		s.enter(2)
		s.send(0)
		s.resolve(lane.Confirmed, 0)
		s.send(1)
		s.resolve(lane.Failed, 1)
		s.send(1)
		s.wantWaiting(2)
		require.True(s, s.State().Held)
		s.resolve(lane.Confirmed, 1)
		s.sent(2)
	})
}

func TestASuspectHoldsWhatIsAboveItUntilItsVerdict(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.tickets[0].Suspend() // Not on the wire: no suspect.
		s.send(0, 1)
		s.tickets[1].Suspend()
		s.enter(2)
		s.resolve(lane.Confirmed, 0)
		s.wantWaiting(2)
		require.Equal(s, 1, s.State().OnWire, "its publisher sends it again by itself")
		s.resolve(lane.Confirmed, 1)
		s.sent(2)
	})
}

func TestASuspectWhoseConnectionBreaksGoesOnAsAnyOther(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.send(0, 1, 2)
		for _, ticket := range s.tickets {
			ticket.Suspend()
		}
		s.resolve(lane.Failed, 0, 1, 2)
		s.enter(1, 2)
		s.send(0)
		s.wantWaiting(1, 2)
		s.resolve(lane.Confirmed, 0)
		s.sent(1)
		s.sent(2)
	})
}
