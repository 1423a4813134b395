package integration_test

import (
	"context"
	"errors"
	"fmt"
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
	attempts = 4
	// retry is quick, so that a message is soon given up.
	retry = "retry: {max_attempts: 4, initial_interval: 10ms, max_interval: 50ms}"
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
	for _, p := range eachEnd() {
		from, to := p.from.shared(t, "a"), p.to.shared(t, "b")
		for _, failing := range []int{1, 3, attempts} {
			t.Run(fmt.Sprintf("%s, %d of %d attempts", p, failing, attempts), func(t *testing.T) {
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
	}
}

// distant is a kind of broker as the destination, 50 ms away so that all messages are in flight at once.
type distant struct {
	pair  pair
	own   func(t testing.TB) *brokers.Broker
	limit func(t *testing.T, to integration.End) // Lets the broker refuse what is too large.
	size  int                                    // That is too large.
	again int                                    // How many may arrive twice, since the broker breaks the connection over it.
}

func TestOneOfManyInFlightFails(t *testing.T) {
	for _, d := range []distant{
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
		t.Run(d.pair.String(), func(t *testing.T) {
			t.Parallel()
			broker := d.own(t)
			far := broker.Link(t)
			far.Delay(50 * time.Millisecond)
			made := func(t *testing.T) *integration.Route {
				to := lane(t, d.pair.to, "far", broker)
				through(t, to, far)
				return integration.NewRoute(lane(t, d.pair.from, "near", d.pair.from.shared(t, "a")), to)
			}
			t.Run("on the way, which is no attempt", func(t *testing.T) { failOnTheWay(t, made(t), far) })
			t.Run("since it is too large", func(t *testing.T) { failForItsSize(t, made(t), d) })
		})
	}
}

func failOnTheWay(t *testing.T, route *integration.Route, far *link.Link) {
	config := quick("", route)
	cut := make(chan struct{}, 1)
	r, stop := inside(t, quick(", middleware: [trip]", route), func(attempt int) error {
		if attempt == 1 {
			far.Cut() // With what is on the wire before it, and what comes behind it.
			cut <- struct{}{}
		}
		return nil
	})
	waitRunning(t, r)
	route.Send(t, policyMessages)
	select {
	case <-cut:
	case <-time.After(time.Minute):
		t.Fatal("the culprit never came")
	}
	// What follows are knocks at a closed door, more than a refused message has attempts.
	door := integration.NewDoorbell(t, far.Address())
	integration.Eventually(t, time.Minute, func() string {
		if door.Knocks() > size(2*attempts, attempts) {
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
}

func failForItsSize(t *testing.T, route *integration.Route, d distant) {
	config := quick("", route)
	ferry := integration.Run(t, config)
	route.Send(t, 20)
	route.WaitAcked(t, time.Minute)

	d.limit(t, route.To) // Nobody tells the program.
	route.Send(t, culprit-20)
	route.From.Payloads(d.size)
	route.Send(t, 1)
	route.From.Payloads(1000)
	route.Send(t, policyMessages-culprit-1)
	route.WaitAcked(t, time.Minute)
	ferry.Stop(t, stopTime)
	route.WantParked(t, config, integration.Parked{First: culprit, Last: culprit, Class: "permanent", Attempts: 1})
	t.Log(route.WantOneMissing(t, culprit, d.again))
}
