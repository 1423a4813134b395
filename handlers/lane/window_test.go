package lane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

func TestTheWindowReachesFromTheCommittedPrefixToTheLastTicket(t *testing.T) {
	tell(t, lane.Settings{Window: 3}, 3, func(s *story) {
		require.Nil(s, s.issue(1))
		s.send(0, 1, 2)
		s.resolve(lane.Confirmed, 1, 2)
		require.Nil(s, s.issue(1), "what is settled behind a held head fills the window too")
		s.resolve(lane.Confirmed, 0)
		require.Nil(s, s.issue(1), "nothing is committed yet")
		s.Committed(2)
		require.NotNil(s, s.issue(1))
		require.NotNil(s, s.issue(1))
		require.Nil(s, s.issue(1))
		require.Equal(s, lane.State{InFlight: 3, Unsettled: 2, Since: s.State().Since}, s.State())
	})
}

func TestAWindowBelowOneIsOne(t *testing.T) {
	tell(t, lane.Settings{Window: -1}, 1, func(s *story) {
		require.Nil(s, s.issue(1))
	})
}

func TestNothingIsCommittedBeyondTheSettledPrefix(t *testing.T) {
	tell(t, lane.Settings{Window: 3}, 3, func(s *story) {
		s.send(0, 1, 2)
		s.resolve(lane.Confirmed, 0, 2)
		s.Committed(3)
		require.Equal(s, 2, s.State().InFlight)
	})
}

func TestTheWindowMayGrowToThousands(t *testing.T) {
	tell(t, lane.Settings{Window: 5000}, 0, func(s *story) {
		var numbers []uint64
		for len(s.tickets) < 40 { // So that the oldest is not at the start of the ring when it grows.
			s.send(s.tail())
			s.resolve(lane.Confirmed, len(s.tickets)-1)
			s.Committed(s.Settled())
		}
		for s.State().InFlight < 5000 {
			numbers = append(numbers, s.issue(1).Number())
		}
		require.EqualValues(s, 40, numbers[0])
		require.EqualValues(s, 5039, numbers[4999])
		for n := 40; n < 5040; n++ {
			s.send(n)
		}
		for n := 5039; n >= 40; n-- {
			s.tickets[n].Resolve(lane.Confirmed)
		}
		require.EqualValues(s, 5040, s.Settled())
	})
}

// tail issues one more ticket and gives its number.
func (s *story) tail() int {
	require.NotNil(s, s.issue(1))
	return len(s.tickets) - 1
}

func TestProgressAndRoomAreSignalled(t *testing.T) {
	tell(t, lane.Settings{}, 2, func(s *story) {
		s.send(0, 1)
		s.resolve(lane.Confirmed, 1)
		require.Empty(s, s.Signal(), "a gap is no progress")
		s.resolve(lane.Confirmed, 0)
		require.Len(s, s.Signal(), 1)
		<-s.Signal()
		s.Committed(2)
		require.Len(s, s.Signal(), 1)
		<-s.Signal()
		s.Committed(2)
		require.Empty(s, s.Signal(), "that is known already: a reader who commits on each signal must not spin")
	})
}
