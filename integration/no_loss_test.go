package integration_test

import (
	"testing"
	"time"

	"github.com/mqferry/mqferry/integration"
)

func TestEveryMessageArrivesOnceInOrderAndAsItWas(t *testing.T) {
	run(t, eachPair(), func(t *testing.T, route *integration.Route) {
		route.Send(t, size(100_000, 10_000))
		ferry := integration.Run(t, integration.Config("", route))
		route.WaitAcked(t, time.Minute)
		route.WantExactlyOnce(t)
		ferry.Stop(t, stopTime)
		route.WaitAcked(t, time.Second)
	})
}

func TestWhatIsSentWhileTheFerryRunsArrivesToo(t *testing.T) {
	run(t, eachPair(), func(t *testing.T, route *integration.Route) {
		ferry := integration.Run(t, integration.Config("", route))
		ferry.WaitReady(t, time.Minute)
		for range 5 {
			route.Send(t, 200)
			route.WaitAcked(t, 30*time.Second)
		}
		route.WantExactlyOnce(t)
		ferry.Stop(t, stopTime)
	})
}
