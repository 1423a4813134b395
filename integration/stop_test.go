package integration_test

import (
	"testing"
	"time"

	"github.com/mqferry/mqferry/integration"
)

func TestACleanStopInTheMiddleLosesAndRepeatsNothing(t *testing.T) {
	run(t, eachPair(), func(t *testing.T, route *integration.Route) {
		random := dice(t)
		route.Send(t, size(50_000, 20_000))
		ferry := integration.Run(t, integration.Config("", route))
		ferry.WaitConfirmed(t, route, 1+random.IntN(route.Sent()/3), time.Minute)
		ferry.Stop(t, stopTime)
		route.WantUnacked(t)

		ferry = integration.Run(t, integration.Config("", route))
		route.WaitAcked(t, time.Minute)
		route.WantExactlyOnce(t)
		ferry.Stop(t, stopTime)
	})
}

func TestStopAfterStopUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	run(t, eachEnd(), func(t *testing.T, route *integration.Route) {
		random := dice(t)
		stop := route.Load(t, 2000)
		for range size(5, 2) {
			ferry := integration.Run(t, integration.Config("", route))
			ferry.WaitConfirmed(t, route, 1+random.IntN(1000), time.Minute)
			ferry.Stop(t, stopTime)
		}
		stop()
		ferry := integration.Run(t, integration.Config("", route))
		route.WaitAcked(t, time.Minute)
		route.WantExactlyOnce(t)
		ferry.Stop(t, stopTime)
	})
}
