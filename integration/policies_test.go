package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/integration/link"
	"github.com/mqferry/mqferry/middleware"
	"github.com/mqferry/mqferry/router"
)

const (
	// policyMessages is how many are in flight at once here, so few that the books keep each as it was sent.
	policyMessages = 100
	// culprit is the number of the message that fails.
	culprit = 40
	// attempts is after how many attempts a message is given up.
	attempts = 3
	// retry is quick, so that a message is soon given up.
	retry = "retry: {max_attempts: 3, initial_interval: 10ms, max_interval: 50ms}"
)

// quick gives a config file whose routes retry quickly; options are further ones of the defaults, each with a comma in front.
func quick(options string, routes ...*integration.Route) string {
	return integration.Config("shutdown_timeout: 3s\ndefaults: {window: 1000, "+retry+options+"}", routes...)
}

// lane makes a topic of one lane on the broker.
func lane(t *testing.T, k kind, site string, b *brokers.Broker) integration.End {
	t.Helper()
	switch k.name {
	case "kafka":
		return integration.NewKafka(t, site, b, 1)
	case "redis":
		// A ferry whose router is inside the test is not known by the same name as one that is a process.
		stream := integration.NewRedis(t, site, b)
		stream.Lease("1s")
		return stream
	}
	return k.end(t, site, b)
}

// through lets the ferry reach an end through a link.
func through(t *testing.T, to integration.End, l *link.Link) {
	t.Helper()
	switch to := to.(type) {
	case *integration.Kafka:
		to.Through(l.Address())
	case *integration.RabbitMQ:
		to.Through(l.Address())
	case *integration.Redis:
		to.Through(l.Address())
	default:
		t.Fatalf("no link to a %T", to)
	}
}

// eachDestination runs the test for each kind of broker as the destination, with a source of another kind.
func eachDestination(t *testing.T, test func(t *testing.T, p pair)) {
	t.Helper()
	for _, p := range eachEnd() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// linkedRoute is a route of one lane to a broker of the test's own behind a link of 50 ms: all messages are in flight at once.
func linkedRoute(t *testing.T, p pair) (*integration.Route, *link.Link) {
	t.Helper()
	broker := p.to.own(t)
	far := broker.Link(t)
	far.Delay(50 * time.Millisecond)
	to := lane(t, p.to, "far", broker)
	through(t, to, far)
	return integration.NewRoute(lane(t, p.from, "near", p.from.shared(t, "a")), to), far
}

// inside runs a router in the test itself, with a middleware that calls f at each attempt of the culprit, and of nobody else.
func inside(t *testing.T, config string, f func(attempt int) error) (r *router.Router, stop func()) {
	t.Helper()
	var tries atomic.Int64
	trip := router.WithMiddleware("trip", middleware.New(
		func() struct{} { return struct{}{} },
		func(struct{}, middleware.Settings) (message.HandlerMiddleware, error) {
			return func(next message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					if msg.Metadata.Get("test-seq") == fmt.Sprint(culprit) {
						if err := f(int(tries.Add(1))); err != nil {
							return nil, err
						}
					}
					return next(msg)
				}
			}, nil
		},
	))
	options := []router.Option{trip, router.WithInstance("integration")}
	cfg, err := router.Parse("test.yml", []byte(config), options...)
	require.NoError(t, err)
	r, err = router.New(cfg, options...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(cancel)
	return r, func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(stopTime):
			t.Fatal("the router does not stop")
		}
	}
}

func waitRunning(t *testing.T, r *router.Router) {
	t.Helper()
	integration.Eventually(t, time.Minute, func() string {
		if s := r.Status()[0]; s.Phase != router.Running {
			return fmt.Sprintf("the route is %s: %s", s.Phase, s.Trouble())
		}
		return ""
	})
}

func TestAMessageThatFailsInAMiddlewareKeepsItsPlaceOrIsParkedAlone(t *testing.T) {
	eachDestination(t, func(t *testing.T, p pair) {
		from, to := p.from.shared(t, "a"), p.to.shared(t, "b")
		for _, failing := range []int{1, attempts - 1, attempts} {
			t.Run(fmt.Sprintf("%d of %d attempts", failing, attempts), func(t *testing.T) {
				route := integration.NewRoute(lane(t, p.from, "near", from), lane(t, p.to, "far", to))
				route.Send(t, policyMessages)
				config := quick("", route)
				r, stop := inside(t, quick(", middleware: [trip]", route), func(attempt int) error {
					if attempt <= failing {
						return errors.New("not this one")
					}
					return nil
				})
				route.WaitAcked(t, time.Minute)
				stop()
				parked := 0
				if failing == attempts {
					parked = 1
					route.WantOneMissing(t, culprit, 0)
					route.WantParked(t, config, integration.Parked{First: culprit, Last: culprit, Class: "refused", Attempts: attempts})
				} else {
					route.WantExactlyOnce(t)
					require.Empty(t, route.InPoisonQueue(t, config))
				}
				ended, _ := r.Status()[0].Meter.Ended(handlers.Parked)
				require.EqualValues(t, parked, ended)
				ended, _ = r.Status()[0].Meter.Ended(handlers.Forwarded)
				require.EqualValues(t, policyMessages-parked, ended)
			})
		}
	})
}

func TestAFailureOnTheWayIsNoAttemptAndKeepsTheOrder(t *testing.T) {
	eachDestination(t, func(t *testing.T, p pair) {
		route, far := linkedRoute(t, p)
		config := quick("", route)
		began := make(chan struct{}, 10)
		var armed atomic.Bool
		r, stop := inside(t, quick(", middleware: [trip]", route), func(int) error {
			if armed.Swap(false) {
				far.Cut() // With what is on the wire before it, and what comes behind it.
				began <- struct{}{}
			}
			return nil
		})
		waitRunning(t, r)
		armed.Store(true)
		route.Send(t, policyMessages)
		// The first attempt fails with the link. What follows are knocks at a closed door, more than a refused message has attempts.
		<-began
		door := integration.NewDoorbell(t, far.Address())
		integration.Eventually(t, time.Minute, func() string {
			if door.Knocks() > 2*attempts {
				return ""
			}
			return fmt.Sprintf("only %d knocks at the door of the destination", door.Knocks())
		})
		require.NotEmpty(t, route.Missing())
		door.Remove()
		require.NoError(t, far.Heal())
		route.WaitAcked(t, time.Minute)
		stop()
		t.Log(route.WantAtMost(t, policyMessages))
		require.Empty(t, route.InPoisonQueue(t, config))
	})
}

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

func TestOneMessageThatIsTooLargeForARealBrokerIsParkedAlone(t *testing.T) {
	for _, test := range []struct {
		pair  pair
		own   func(t testing.TB) *brokers.Broker
		limit func(t *testing.T, to integration.End)
		size  int
		again int // How many may arrive twice, since the broker breaks the connection.
	}{
		{
			pair{redis(), kafka()},
			func(t testing.TB) *brokers.Broker { return brokers.KafkaOwn(t) },
			func(t *testing.T, to integration.End) { to.(*integration.Kafka).Set(t, "max.message.bytes", "50000") }, 100_000, 0,
		},
		{
			pair{kafka(), rabbitmq()},
			func(t testing.TB) *brokers.Broker { return brokers.RabbitMQOwn(t, "max_message_size = 50000") },
			func(*testing.T, integration.End) {}, 100_000, policyMessages,
		},
		{
			pair{rabbitmq(), redis()},
			func(t testing.TB) *brokers.Broker { return brokers.RedisOwn(t) },
			func(t *testing.T, to integration.End) {
				to.(*integration.Redis).Set(t, "proto-max-bulk-len", "1048576")
			}, 1_100_000, policyMessages,
		},
	} {
		t.Run(test.pair.String(), func(t *testing.T) {
			t.Parallel()
			broker := test.own(t)
			far := broker.Link(t)
			far.Delay(50 * time.Millisecond)
			from, to := lane(t, test.pair.from, "near", test.pair.from.shared(t, "a")), lane(t, test.pair.to, "far", broker)
			through(t, to, far)
			route := integration.NewRoute(from, to)
			config := quick("", route)
			ferry := integration.Run(t, config)
			route.Send(t, 20)
			route.WaitAcked(t, time.Minute)

			// Nobody tells the program.
			test.limit(t, to)
			route.Send(t, culprit-20)
			from.Payloads(test.size)
			route.Send(t, 1)
			from.Payloads(1000)
			route.Send(t, policyMessages-culprit-1)
			route.WaitAcked(t, time.Minute)
			ferry.Stop(t, stopTime)
			route.WantParked(t, config, integration.Parked{First: culprit, Last: culprit, Class: "permanent", Attempts: 1})
			t.Log(route.WantOneMissing(t, culprit, test.again))
		})
	}
}
