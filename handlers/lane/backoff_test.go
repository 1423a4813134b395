package lane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

var patient = lane.Backoff{Initial: time.Second, Max: 5 * time.Second}

// wantPause requires that ticket n, which waits in Enter, enters after a pause of at most longest, and more than half of it.
func (s *story) wantPause(n int, longest time.Duration) {
	s.Helper()
	s.wantWaiting(n)
	time.Sleep(longest / 2) // The bubble's clock.
	s.wantWaiting(n)
	time.Sleep(longest - longest/2)
	s.wantReturned(n, nil)
}

func TestThePauseBeforeAProbeDoublesUpToItsCap(t *testing.T) {
	tell(t, lane.Settings{Backoff: patient}, 1, func(s *story) {
		s.send(0)
		for failures, longest := range []time.Duration{1, 2, 4, 5, 5} {
			s.resolve(lane.Failed, 0)
			require.Equal(s, failures+1, s.State().Failures)
			s.enter(0)
			s.wantPause(0, longest*time.Second)
			require.True(s, s.hand(0))
		}
	})
}

func TestAConfirmLetsThePausesBeginAfresh(t *testing.T) {
	tell(t, lane.Settings{Backoff: patient}, 2, func(s *story) {
		s.send(0)
		s.resolve(lane.Failed, 0)
		s.enter(0)
		s.wantPause(0, time.Second)
		require.True(s, s.hand(0))
		s.resolve(lane.Confirmed, 0)
		require.Zero(s, s.State().Failures)
		s.send(1)
		s.resolve(lane.Failed, 1)
		s.enter(1)
		s.wantPause(1, time.Second)
	})
}

func TestAWindowThatFailsTogetherIsOneFailure(t *testing.T) {
	tell(t, lane.Settings{Backoff: patient}, 3, func(s *story) {
		s.send(0, 1, 2)
		s.resolve(lane.Failed, 0)
		time.Sleep(time.Second)
		s.resolve(lane.Failed, 1, 2)
		require.Equal(s, 1, s.State().Failures)
		s.send(0) // The pause is over: it began with the first.
	})
}

func TestAClosedLaneCountsNoFailures(t *testing.T) {
	tell(t, lane.Settings{Backoff: patient}, 1, func(s *story) {
		s.send(0)
		s.Close()
		s.resolve(lane.Failed, 0)
		require.Zero(s, s.State().Failures)
	})
}

func TestPausesAreSpreadByUpToAHalfDownwards(t *testing.T) {
	for name, c := range map[string]struct {
		backoff lane.Backoff
		n       int
		longest time.Duration
	}{
		"the first":                        {patient, 1, time.Second},
		"before the first":                 {patient, 0, time.Second},
		"the third":                        {patient, 3, 4 * time.Second},
		"the thousandth":                   {patient, 1000, 5 * time.Second},
		"a cap below the first":            {lane.Backoff{Initial: time.Second, Max: 1}, 7, time.Second},
		"no cap":                           {lane.Backoff{Initial: time.Second}, 7, time.Second},
		"nothing":                          {lane.Backoff{}, 7, 0},
		"a cap on nothing":                 {lane.Backoff{Max: time.Second}, 7, 0},
		"a nanosecond, with no half":       {lane.Backoff{Initial: 1}, 1, 1},
		"two nanoseconds, with one":        {lane.Backoff{Initial: 2}, 1, 2},
		"the longest that fits an int64":   {lane.Backoff{Initial: 1 << 62, Max: 1<<63 - 1}, 1, 1 << 62},
		"doubled beyond what an int holds": {lane.Backoff{Initial: 1 << 62, Max: 1<<63 - 1}, 9, 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			shortest, longest := c.longest, time.Duration(0)
			for range 200 {
				wait := c.backoff.After(c.n)
				shortest, longest = min(shortest, wait), max(longest, wait)
			}
			require.LessOrEqual(t, longest, c.longest)
			require.GreaterOrEqual(t, shortest, c.longest-c.longest/2)
			if c.longest > time.Millisecond {
				require.Greater(t, longest, c.longest/10*9)
				require.Less(t, shortest, c.longest/10*6)
			}
		})
	}
}
