package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestARouteWhoseDestinationIsDownDoesNotSlowAnother(t *testing.T) {
	t.Parallel()
	kafkaA, redisB := brokers.Kafka(t, "a"), brokers.Redis(t, "b")
	down := brokers.RedisOwn(t)
	stuck := integration.NewRoute(kafka().end(t, "near", kafkaA), redis().end(t, "down", down))
	other := integration.NewRoute(kafka().end(t, "near", kafkaA), redis().end(t, "up", redisB))
	ferry := integration.Run(t, integration.Config("", stuck, other))
	ferry.WaitReady(t, time.Minute)
	stuck.Send(t, 1000)
	stuck.WaitAcked(t, time.Minute)

	down.Stop(t)
	stuck.Send(t, 40_000)
	ferry.WaitTrouble(t, stuck, 30*time.Second, "down")
	other.Send(t, 40_000)
	other.WaitAcked(t, 30*time.Second)
	other.WantExactlyOnce(t)
	_, text := ferry.Ready()
	require.NotContains(t, text, other.Name, "a route without trouble is named as troubled")

	down.Start(t)
	stuck.WaitAcked(t, time.Minute)
	stuck.WantAtMost(t, 8192*partitions)
	ferry.Stop(t, stopTime)
}

func TestABrokerThatIsMissingAtTheStartIsWaitedForWhileOtherRoutesRun(t *testing.T) {
	for _, missing := range []kind{kafka(), rabbitmq(), redis()} {
		t.Run(missing.name, func(t *testing.T) {
			t.Parallel()
			broker := missing.own(t)
			near := redis().end(t, "near", brokers.Redis(t, "a"))
			waiting := integration.NewRoute(near, missing.end(t, "missing", broker))
			other := integration.NewRoute(redis().end(t, "near", brokers.Redis(t, "a")), redis().end(t, "far", brokers.Redis(t, "b")))
			waiting.Send(t, 1000)
			other.Send(t, 1000)
			broker.Stop(t)

			ferry := integration.Run(t, integration.Config("", waiting, other))
			other.WaitAcked(t, 30*time.Second)
			other.WantExactlyOnce(t)
			ferry.WaitTrouble(t, waiting, 10*time.Second, "missing")

			broker.Start(t)
			waiting.WaitAcked(t, time.Minute)
			waiting.WantExactlyOnce(t)
			ferry.WaitReady(t, 10*time.Second)
			ferry.Stop(t, stopTime)
		})
	}
}
