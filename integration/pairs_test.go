package integration_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
	_ "github.com/mqferry/mqferry/router/command" // The program that runs: a change of it must not leave cached results.
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(integration.Suite(m)) }

// partitions is how many a topic has, unless the test is about that.
const partitions = 4

// stopTime is how long a stop may take: the default shutdown_timeout, and what the rest takes on a busy machine.
const stopTime = 25 * time.Second

// pairs runs the test for each pair of brokers, on those that all tests share.
func pairs(t *testing.T, test func(t *testing.T, route *integration.Route)) {
	t.Helper()
	for _, pair := range []struct {
		name     string
		from, to func(t *testing.T, name string) integration.End
	}{
		{"kafka to kafka", kafka, kafka},
		{"kafka to redis", kafka, redis},
		{"redis to kafka", redis, kafka},
		{"redis to redis", redis, redis},
	} {
		t.Run(pair.name, func(t *testing.T) {
			test(t, integration.NewRoute(pair.from(t, "a"), pair.to(t, "b")))
		})
	}
}

func kafka(t *testing.T, name string) integration.End {
	return integration.NewKafka(t, "kafka-"+name, brokers.Kafka(t, name), partitions)
}

func redis(t *testing.T, name string) integration.End {
	return integration.NewRedis(t, "redis-"+name, brokers.Redis(t, name))
}

// size is n, or few in a short run.
func size(n, few int) int {
	if testing.Short() {
		return few
	}
	return n
}

// dice is a source of random moments; the seed that repeats them is in the test's log.
func dice(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
