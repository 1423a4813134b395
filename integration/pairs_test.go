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

// kind is a kind of broker: how to get one, and a topic on it.
type kind struct {
	name   string
	end    func(t testing.TB, site string, b *brokers.Broker) integration.End
	shared func(t testing.TB, name string) *brokers.Broker
	own    func(t testing.TB, settings ...string) *brokers.Broker
}

func kafka() kind {
	return kind{"kafka", func(t testing.TB, site string, b *brokers.Broker) integration.End {
		return integration.NewKafka(t, site, b, partitions)
	}, brokers.Kafka, brokers.KafkaOwn}
}

func rabbitmq() kind {
	return kind{"rabbitmq", func(t testing.TB, site string, b *brokers.Broker) integration.End {
		return integration.NewRabbitMQ(t, site, b)
	}, brokers.RabbitMQ, brokers.RabbitMQOwn}
}

func redis() kind {
	return kind{"redis", func(t testing.TB, site string, b *brokers.Broker) integration.End {
		return integration.NewRedis(t, site, b)
	}, brokers.Redis, brokers.RedisOwn}
}

// pair is two kinds of brokers with a route from one to the other.
type pair struct{ from, to kind }

func (p pair) String() string { return p.from.name + " to " + p.to.name }

// eachPair is all there are.
func eachPair() []pair {
	var all []pair
	for _, from := range []kind{kafka(), rabbitmq(), redis()} {
		for _, to := range []kind{kafka(), rabbitmq(), redis()} {
			all = append(all, pair{from, to})
		}
	}
	return all
}

// eachEnd is pairs in which each kind of broker is source once and destination once: for what a pair does not make different. Which of them it is
// with has no meaning. In a long run it is all pairs.
func eachEnd() []pair {
	if !brokers.Brief() {
		return eachPair()
	}
	return []pair{{kafka(), rabbitmq()}, {rabbitmq(), redis()}, {redis(), kafka()}}
}

// run runs the test for each of the pairs, on brokers that all tests share.
func run(t *testing.T, pairs []pair, test func(t *testing.T, route *integration.Route)) {
	t.Helper()
	for _, p := range pairs {
		t.Run(p.String(), func(t *testing.T) {
			from := p.from.end(t, p.from.name+"-a", p.from.shared(t, "a"))
			to := p.to.end(t, p.to.name+"-b", p.to.shared(t, "b"))
			test(t, integration.NewRoute(from, to))
		})
	}
}

// size is n in a long run, and few in any other.
func size(n, few int) int {
	if brokers.Brief() {
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
