package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
)

const (
	outageWindow = 1000
	outageConfig = "defaults: {window: 1000, window_bytes: 16MiB}\nshutdown_timeout: 5s"
	mebibyte     = 1 << 20
)

// outagePairs runs the test for each kind of broker, at the same time, on a destination that the test may stop as it likes.
func outagePairs(t *testing.T, test func(t *testing.T, route *integration.Route, destination *brokers.Broker)) {
	t.Helper()
	for _, p := range eachEnd() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			destination := p.to.own(t)
			route := integration.NewRoute(p.from.end(t, "near", p.from.shared(t, "a")), p.to.end(t, "far", destination))
			test(t, route, destination)
		})
	}
}

func TestADestinationThatIsDownIsWaitedForAtNoCost(t *testing.T) {
	outagePairs(t, func(t *testing.T, route *integration.Route, destination *brokers.Broker) {
		outage := time.Duration(size(30, 6)) * time.Second
		ferry := integration.Run(t, integration.Config(outageConfig, route))
		ferry.WaitReady(t, time.Minute)
		stop := route.Load(t, 1000)
		ferry.WaitConfirmed(t, route, 1000, time.Minute)

		destination.Kill(t)
		ferry.WaitTrouble(t, route, 30*time.Second, "far")
		route.Send(t, 20_000) // Far more than the window holds.
		filling := ferry.MaxRSS(t, outage/3)
		attempts, door := ferry.Attempts(route), integration.NewDoorbell(t, destination.Address())
		full := ferry.MaxRSS(t, outage*2/3)
		attempts = ferry.Attempts(route) - attempts
		door.Remove()
		confirmed := ferry.Confirmed(route)
		destination.Start(t)
		if !integration.RaceDetector {
			require.LessOrEqual(t, full, filling+filling/5+16*mebibyte, "the memory grows with the outage")
			require.LessOrEqual(t, full, memoryBudget(16*mebibyte), "the memory while the destination is down")
		}
		most := 20 * route.From.Lanes() * int((outage * 2 / 3).Seconds())
		require.LessOrEqual(t, int(attempts), most, "failed attempts while the destination is down")
		require.Positive(t, door.Knocks(), "nobody looks whether the destination is up again")
		require.LessOrEqual(t, door.Knocks(), most, "connections to the destination while it is down")

		ferry.WaitConfirmed(t, route, confirmed+1, time.Minute)
		stop()
		route.WaitAcked(t, time.Minute)
		ferry.WaitReady(t, time.Minute)
		report := route.WantAtMost(t, outageWindow*route.From.Lanes())
		t.Logf("%s; %d MiB while the window filled, then %d MiB; in %v %v attempts and %d connections",
			report, filling/mebibyte, full/mebibyte, outage*2/3, attempts, door.Knocks())
		ferry.Stop(t, stopTime)
	})
}

func TestAStopWhileTheDestinationIsDownIsOverInTime(t *testing.T) {
	outagePairs(t, func(t *testing.T, route *integration.Route, destination *brokers.Broker) {
		ferry := integration.Run(t, integration.Config(outageConfig, route))
		ferry.WaitReady(t, time.Minute)
		route.Send(t, 500)
		route.WaitAcked(t, time.Minute)
		destination.Stop(t)
		route.Send(t, 5000)
		ferry.WaitTrouble(t, route, 30*time.Second, "far")
		// Five seconds of shutdown_timeout, and as long again for a busy machine.
		require.Equal(t, 1, ferry.Terminate(t, 10*time.Second), "the exit code when not all could be settled; the log:\n%s", ferry.Log(t))

		destination.Start(t)
		ferry = integration.Run(t, integration.Config(outageConfig, route))
		route.WaitAcked(t, time.Minute)
		route.WantAtMost(t, outageWindow*route.From.Lanes())
		ferry.Stop(t, stopTime)
	})
}

func TestASourceThatWasDownIsReadOn(t *testing.T) {
	for _, source := range []kind{kafka(), redis()} { // For rabbitmq see rabbitmq_test.go.
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			broker := source.own(t)
			route := integration.NewRoute(source.end(t, "near", broker), redis().end(t, "far", brokers.Redis(t, "b")))
			route.Send(t, 30_000)
			ferry := integration.Run(t, integration.Config(outageConfig, route))
			ferry.WaitConfirmed(t, route, 1000, time.Minute)
			broker.Stop(t)
			ferry.WaitTrouble(t, route, 30*time.Second, "near")
			broker.Start(t)
			route.WantUnacked(t)
			route.WaitAcked(t, time.Minute)
			route.Send(t, 100)
			route.WaitAcked(t, time.Minute)
			ferry.WaitReady(t, 30*time.Second)
			report := route.WantAtMost(t, outageWindow*route.From.Lanes())
			t.Log(report)
			ferry.Stop(t, stopTime)
		})
	}
}
