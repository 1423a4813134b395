package lane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

func TestAStopCancelsWhatWasNeverSentAndLetsTheRestFinish(t *testing.T) {
	tell(t, lane.Settings{Window: 9}, 4, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Failed, 1)
		s.enter(3)
		s.wantWaiting(3)
		s.Stop()
		s.wantReturned(3, lane.ErrCancelled)
		require.True(s, s.tickets[2].Cancelled())
		require.Nil(s, s.issue(1), "the intake has ended")
		s.resolve(lane.Confirmed, 0)
		s.send(1)
		require.False(s, s.tickets[1].Cancelled())
		s.resolve(lane.Confirmed, 1)
		require.False(s, s.Drained(), "what is settled is not committed yet")
		s.Committed(s.Settled())
		require.True(s, s.Drained())
	})
}

func TestATicketThatHasEnteredFinishesAfterAStop(t *testing.T) {
	tell(t, lane.Settings{}, 1, func(s *story) {
		s.enter(0)
		s.wantReturned(0, nil)
		s.Stop()
		require.False(s, s.tickets[0].Cancelled())
		require.True(s, s.hand(0))
	})
}

func TestAStopLetsEverythingBelowAParkedTicketFinish(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		require.True(s, s.tickets[1].Settle(lane.Parked))
		s.Stop()
		s.enter(2)
		s.wantReturned(2, lane.ErrCancelled)
		require.False(s, s.Drained(), "the parked message would be fetched again, and parked twice")
		s.send(0)
		s.resolve(lane.Confirmed, 0)
		s.Committed(2)
		require.True(s, s.Drained())
	})
}

func TestAStopLetsATicketFinishThatIsBeingParked(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		require.True(s, s.tickets[1].Parking())
		s.Stop()
		require.False(s, s.tickets[0].Cancelled())
		require.False(s, s.tickets[1].Cancelled())
		require.True(s, s.tickets[1].Settle(lane.Parked))
		require.False(s, s.Drained())
	})
}

func TestNothingThatIsCancelledIsParked(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0)
		s.Stop()
		require.False(s, s.tickets[1].Parking())
		s.resolve(lane.Refused, 0)
		require.True(s, s.tickets[0].Parking())
		s.Close()
		require.False(s, s.tickets[0].Parking())
	})
}

func TestADroppedTicketDoesNotKeepAStopWaiting(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		require.True(s, s.tickets[1].Settle(lane.Dropped))
		s.Stop()
		require.True(s, s.tickets[0].Cancelled(), "it will be fetched again, and the one above dropped again")
		require.True(s, s.Drained())
	})
}

func TestAStoppedLaneStillSettlesWhatSettlesByItself(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.Stop()
		require.True(s, s.tickets[1].Settle(lane.Parked))
		require.True(s, s.tickets[0].Cancelled(), "what was cancelled once stays so")
		require.True(s, s.tickets[0].Settle(lane.Confirmed))
		require.EqualValues(s, 2, s.Settled())
	})
}

func TestACloseCancelsAllThatWaits(t *testing.T) {
	tell(t, lane.Settings{Window: 9}, 4, func(s *story) {
		s.send(0)
		s.enter(1)
		s.wantReturned(1, nil)
		s.enter(3)
		s.wantWaiting(3)
		s.Close()
		s.wantReturned(3, lane.ErrCancelled)
		require.False(s, s.hand(1))
		s.enter(1)
		s.wantReturned(1, lane.ErrCancelled)
		require.Nil(s, s.issue(1))
		s.resolve(lane.Failed, 0)
		s.enter(0)
		s.wantReturned(0, lane.ErrCancelled)
	})
}

func TestTheSettledPrefixStaysWhereItWasWhenTheLaneWasClosed(t *testing.T) {
	tell(t, lane.Settings{}, 3, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Confirmed, 0)
		s.Close()
		s.resolve(lane.Confirmed, 1)
		require.True(s, s.tickets[2].Settle(lane.Dropped))
		require.EqualValues(s, 1, s.Settled())
		require.Equal(s, lane.Confirmed, s.tickets[1].Outcome())
		require.False(s, s.tickets[1].Cancelled(), "it is settled")
	})
}

func TestAStopAndACloseAreSignalled(t *testing.T) {
	tell(t, lane.Settings{}, 0, func(s *story) {
		s.Stop()
		require.Len(s, s.Signal(), 1)
		<-s.Signal()
		s.Close()
		require.Len(s, s.Signal(), 1)
		<-s.Signal()
		s.Close()
		require.Empty(s, s.Signal(), "it was closed already")
	})
}
