package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
)

// memoryBudget is what a route of window_bytes may cost: the window itself, a quarter of it for what is fetched ahead, what the clients copy on
// the way out, all that doubled by the garbage collector, and the program. Four windows and 64 MiB in round numbers.
func memoryBudget(window int64) int64 { return 4*window + 64*mebibyte }

func TestMemoryIsBoundedByTheWindowHoweverMuchWaits(t *testing.T) {
	if integration.RaceDetector {
		t.Skip("the race detector takes several times the memory")
	}
	for _, p := range []pair{{kafka(), kafka()}, {kafka(), rabbitmq()}, {kafka(), redis()}, {rabbitmq(), redis()}} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			broker := p.to.own(t)
			from := wide(p.from).end(t, "near", p.from.shared(t, "a"))
			route := integration.NewRoute(from, wide(p.to).end(t, "far", broker))
			ferry := integration.Run(t, integration.Config("defaults: {window_bytes: 64MiB}", route))
			ferry.WaitReady(t, time.Minute)
			route.Send(t, 64)
			route.WaitAcked(t, time.Minute)
			broker.Stop(t)
			from.Payloads(200 << 10)
			route.Send(t, 64*size(30, 20))
			ferry.WaitTrouble(t, route, 30*time.Second, "far")
			ferry.MaxRSS(t, time.Duration(size(10, 3))*time.Second)
			budget := memoryBudget(64 * mebibyte)
			require.LessOrEqual(t, ferry.Peak(t), budget, "the most memory the program held")
			broker.Start(t)
			route.WaitAcked(t, 2*time.Minute)
			peak := ferry.Peak(t)
			require.LessOrEqual(t, peak, budget, "the most memory the program held, catching up included")
			route.WantAtMost(t, route.Sent())
			t.Logf("at most %d MiB of %d", peak/mebibyte, budget/mebibyte)
			ferry.Stop(t, stopTime)
		})
	}
}

// wide is k, with 64 partitions if it has any.
func wide(k kind) kind {
	if k.name == "kafka" {
		k.end = func(t testing.TB, site string, b *brokers.Broker) integration.End {
			return integration.NewKafka(t, site, b, 64)
		}
	}
	return k
}
