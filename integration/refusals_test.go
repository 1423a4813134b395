package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
)

// refusal is a no that a real broker says to any message, until that ends.
type refusal struct {
	name     string
	pair     pair
	class    string
	policy   string // The option that says what becomes of the message.
	attempts int    // After which it is parked.
	word     string // In what /readyz says.
	// place makes the destination, and gives what it is in the config file, if that is not its topic.
	place      func(t *testing.T) (to integration.End, text string)
	begin, end func(t *testing.T, r *integration.Route)
}

// before is how many messages arrive before the broker begins to refuse.
const before = 60

func refusals() []refusal {
	none := func(*testing.T, *integration.Route) {}
	setKafka := func(name, value string) func(*testing.T, *integration.Route) {
		return func(t *testing.T, r *integration.Route) { r.To.(*integration.Kafka).Set(t, name, value) }
	}
	setRedis := func(name, value string) func(*testing.T, *integration.Route) {
		return func(t *testing.T, r *integration.Route) { r.To.(*integration.Redis).Set(t, name, value) }
	}
	exchange := func(r *integration.Route) string { return r.To.Topic() + "-exchange" }
	return []refusal{
		{
			"a topic for small messages only",
			pair{redis(), kafka()},
			"permanent", "on_refused", 1, "max.message.bytes",
			func(t *testing.T) (integration.End, string) {
				return integration.NewKafka(t, "far", brokers.Kafka(t, "b"), 1), ""
			},
			setKafka("max.message.bytes", "50"), setKafka("max.message.bytes", "1000000"),
		},
		{
			"a queue that is full",
			pair{kafka(), rabbitmq()},
			"full", "on_capacity", attempts, "full",
			func(t *testing.T) (integration.End, string) {
				return integration.NewRabbitMQ(t, "far", brokers.RabbitMQ(t, "b"), fmt.Sprintf("x-max-length=%d", before), "x-overflow=reject-publish"), ""
			},
			none, func(t *testing.T, r *integration.Route) { r.Check(t) }, // Which takes out what is there.
		},
		{
			"an exchange without a binding",
			pair{kafka(), rabbitmq()},
			"unroutable", "on_unroutable", attempts, "NO_ROUTE",
			func(t *testing.T) (integration.End, string) {
				q := integration.NewRabbitMQ(t, "far", brokers.RabbitMQ(t, "b"))
				q.Bind(t, q.Topic()+"-exchange")
				return q, fmt.Sprintf("{datacenter: far, exchange: %s-exchange}", q.Topic())
			},
			func(t *testing.T, r *integration.Route) { r.To.(*integration.RabbitMQ).Unbind(t, exchange(r)) },
			func(t *testing.T, r *integration.Route) { r.To.(*integration.RabbitMQ).Bind(t, exchange(r)) },
		},
		{
			"a server out of memory",
			pair{rabbitmq(), redis()},
			"full", "on_capacity", attempts, "OOM",
			func(t *testing.T) (integration.End, string) {
				return integration.NewRedis(t, "far", brokers.RedisOwn(t, "--maxmemory-policy", "noeviction")), ""
			},
			setRedis("maxmemory", "1"), setRedis("maxmemory", "0"),
		},
	}
}

// eachRefusal runs the test for each way in which a broker refuses everything, once 60 messages have arrived, with 40 more that it refuses.
func eachRefusal(t *testing.T, policy string, test func(t *testing.T, f refusal, route *integration.Route, ferry *integration.Ferry, config string)) {
	t.Helper()
	for _, f := range refusals() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			to, text := f.place(t)
			route := integration.NewRoute(lane(t, f.pair.from, "near", f.pair.from.shared(t, "a")), to)
			config := quick(", "+f.policy+": "+policy, route)
			if text != "" {
				config = strings.Replace(config, "to: far/"+to.Topic(), "to: "+text, 1)
			}
			ferry := integration.Run(t, config)
			route.Send(t, before)
			route.WaitAcked(t, time.Minute)
			f.begin(t, route)
			route.Send(t, policyMessages-before)
			test(t, f, route, ferry, config)
			ferry.Stop(t, stopTime)
		})
	}
}

func TestWhatARealBrokerRefusesIsHeldUntilItTakesIt(t *testing.T) {
	eachRefusal(t, "hold", func(t *testing.T, f refusal, route *integration.Route, ferry *integration.Ferry, config string) {
		ferry.WaitTrouble(t, route, time.Minute, "far", f.word)
		integration.Eventually(t, time.Minute, func() string {
			if n := ferry.Metric("mqferry_attempts_refused_total", route.Name); n <= 2*attempts {
				return fmt.Sprintf("only %v attempts were refused", n)
			}
			return ""
		})
		require.Equal(t, before, int(ferry.Metric("mqferry_messages_committed_total", route.Name)), "what is refused is acked")
		f.end(t, route)
		route.WaitAcked(t, time.Minute)
		route.WantExactlyOnce(t)
		ferry.WaitReady(t, seconds)
		require.Empty(t, route.InPoisonQueue(t, config))
	})
}

func TestWhatARealBrokerRefusesIsParkedWholeAndReplayed(t *testing.T) {
	eachRefusal(t, "park", func(t *testing.T, f refusal, route *integration.Route, ferry *integration.Ferry, config string) {
		const n = policyMessages - before
		together := f.class == "permanent" // Kafka answers for a batch, in which the one at fault is looked for.
		parked := integration.Parked{First: before, Last: policyMessages - 1, Class: f.class, Attempts: f.attempts, AnyOrder: together}
		route.WaitAcked(t, time.Minute)
		require.Equal(t, n, ferry.Ended(route, "parked"))
		require.Equal(t, before, ferry.Ended(route, "forwarded"))
		refused := int(ferry.Metric("mqferry_attempts_refused_total", route.Name))
		if together {
			require.GreaterOrEqual(t, refused, n)
			require.LessOrEqual(t, refused, 10*n)
		} else {
			require.Equal(t, n*f.attempts, refused)
		}
		route.WantParked(t, config, parked)
		code, output := integration.Poison(t, config, "replay", route.Name)
		require.Equal(t, 1, code, output)
		require.Contains(t, output, fmt.Sprintf("0 messages delivered to far/%s, %d failed", placeIn(config), n))
		route.WantParked(t, config, parked)

		f.end(t, route)
		code, output = integration.Poison(t, config, "replay", route.Name)
		require.Zero(t, code, output)
		require.Contains(t, output, fmt.Sprintf("%d messages delivered", n))
		report := route.Check(t)
		require.Zero(t, report.Lost+report.Duplicated+report.Damaged+report.Unknown, "%s: %v", report, report.Findings)
		if !together {
			require.Zero(t, report.OutOfOrder, "%s: %v", report, report.Findings)
		}
		require.Empty(t, route.InPoisonQueue(t, config))
	})
}

// placeIn is the name of the destination in a config file: its topic, or its exchange.
func placeIn(config string) string {
	_, rest, found := strings.Cut(config, "exchange: ")
	if !found {
		_, rest, _ = strings.Cut(config, "to: far/")
	}
	place, _, _ := strings.Cut(rest, "}")
	return place
}
