package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
)

// The window is small, so that what a crash may repeat is few.
const crashWindow = 1000

func TestAKilledFerryLosesNothingAndRepeatsAtMostAWindow(t *testing.T) {
	run(t, eachEnd(), func(t *testing.T, route *integration.Route) {
		random := dice(t)
		if stream, ok := route.From.(*integration.Redis); ok {
			stream.Lease("500ms") // Otherwise every life begins with five seconds of waiting for the one before.
		}
		config := integration.Config("defaults: {window: 1000}", route)
		kills, struck := size(10, 3), 0
		for range kills {
			route.Send(t, 10_000)
			ferry := integration.Run(t, config)
			ferry.WaitConfirmed(t, route, 1+random.IntN(5000), time.Minute)
			ferry.Kill(t)
			if route.Missing() != "" {
				struck++
			}
		}
		require.NotZero(t, struck, "every kill came after all was acked: the test shows nothing")
		ferry := integration.Run(t, config)
		route.WaitAcked(t, 2*time.Minute)
		report := route.WantAtMost(t, kills*crashWindow*route.From.Lanes())
		t.Logf("%d of the kills struck in the middle: %s", struck, report)
		ferry.Stop(t, stopTime)
	})
}
