package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/integration/link"
)

const (
	rabbitWindow = 1000
	rabbitConfig = "defaults: {window: 1000}\nshutdown_timeout: 3s"
	// A stop may take the shutdown_timeout, and as long again and a little more on a busy machine.
	rabbitStopTime = 8 * time.Second
)

// rabbit is a RabbitMQ of the test's own, and the link through which the ferry reaches it.
type rabbit struct {
	broker *brokers.Broker
	link   *link.Link
}

func newRabbit(t *testing.T) rabbit {
	t.Helper()
	broker := brokers.RabbitMQOwn(t)
	return rabbit{broker, broker.Link(t)}
}

// queue makes a queue that is reached through the link. Its messages survive the broker, and silence is noticed within seconds.
func (r rabbit) queue(t *testing.T, site string, settings ...string) *integration.RabbitMQ {
	t.Helper()
	return integration.NewRabbitMQ(t, site, r.broker, settings...).Through(r.link.Address()).Persistent().Heartbeat("1s")
}

// fault is something that happens to a RabbitMQ.
type fault struct {
	name       string
	begin, end func(t *testing.T, r rabbit, q *integration.RabbitMQ)
	// seen says that the ferry is not ready meanwhile: as the destination, as the source.
	seen [2]bool
	// brief says that the test is in a short run too.
	brief bool
}

const (
	asDestination = 0
	asSource      = 1
)

// processFaults end or halt the broker's process; networkFaults leave it alone.
func processFaults() []fault {
	start := func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { r.broker.Start(t) }
	return []fault{
		{"stopped", func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { r.broker.Stop(t) }, start, [2]bool{true, true}, false},
		{"killed", func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { r.broker.Kill(t) }, start, [2]bool{true, true}, true},
		{
			"paused",
			func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { r.broker.Pause(t) },
			func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { r.broker.Resume(t) },
			[2]bool{true, true},
			false,
		},
	}
}

func networkFaults() []fault {
	heal := func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { require.NoError(t, r.link.Heal()) }
	control := func(arguments string) func(t *testing.T, r rabbit, _ *integration.RabbitMQ) {
		return func(t *testing.T, r rabbit, _ *integration.RabbitMQ) { r.broker.Ctl(t, strings.Fields(arguments)...) }
	}
	return []fault{
		{
			"its connections closed",
			func(t *testing.T, _ rabbit, q *integration.RabbitMQ) {
				integration.Eventually(t, 30*time.Second, func() string {
					if q.CloseConnections(t) > 0 {
						return ""
					}
					return "RabbitMQ does not list a connection of the ferry yet"
				})
			},
			func(*testing.T, rabbit, *integration.RabbitMQ) {},
			[2]bool{},
			true,
		},
		// RabbitMQ blocks who publishes, and nobody else.
		{
			"out of memory", control("set_vm_memory_high_watermark absolute 1"), control("set_vm_memory_high_watermark 0.4"),
			[2]bool{true, false},
			true,
		},
		{"out of disk", control("set_disk_free_limit 900000GB"), control("set_disk_free_limit 50MB"), [2]bool{true, false}, false},
		{"cut off", func(_ *testing.T, r rabbit, _ *integration.RabbitMQ) { r.link.Cut() }, heal, [2]bool{true, true}, false},
		{
			"behind a link that stalls", func(_ *testing.T, r rabbit, _ *integration.RabbitMQ) { r.link.Stall() }, heal,
			[2]bool{true, true},
			true,
		},
	}
}

// eachFault runs the test for each fault. Those of a kind share a broker and come one after the other, in parallel with the other kind.
func eachFault(t *testing.T, test func(t *testing.T, r rabbit, f fault)) {
	t.Helper()
	for name, faults := range map[string][]fault{"process": processFaults(), "network": networkFaults()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := newRabbit(t)
			for _, f := range faults {
				if brokers.Brief() && !f.brief {
					continue
				}
				t.Run(f.name, func(t *testing.T) { test(t, broken, f) })
			}
		})
	}
}

// crossroads is a ferry with two routes: one into a RabbitMQ, one out of it.
type crossroads struct {
	rabbit
	into, outOf *integration.Route
	queue       *integration.RabbitMQ // Of one of them.
	slow        *link.Link            // On the way out, so that the queue is not empty too soon.
	ferry       *integration.Ferry
}

func newCrossroads(t *testing.T, r rabbit) *crossroads {
	t.Helper()
	elsewhere := brokers.RedisOwn(t)
	c := &crossroads{rabbit: r, queue: r.queue(t, "rabbit"), slow: elsewhere.Link(t)}
	c.slow.Bandwidth(1 << 20)
	c.into = integration.NewRoute(integration.NewRedis(t, "near", elsewhere), c.queue)
	c.outOf = integration.NewRoute(r.queue(t, "rabbit"), integration.NewRedis(t, "far", elsewhere).Through(c.slow.Address()))
	return c
}

func (c *crossroads) run(t *testing.T) {
	t.Helper()
	c.ferry = integration.Run(t, integration.Config(rabbitConfig, c.into, c.outOf))
}

// begin lets the fault begin, and sees the ferry notice it.
func (c *crossroads) begin(t *testing.T, f fault) {
	t.Helper()
	f.begin(t, c.rabbit, c.queue)
	for i, route := range []*integration.Route{asDestination: c.into, asSource: c.outOf} {
		if f.seen[i] {
			c.ferry.WaitTrouble(t, route, 30*time.Second, "rabbit")
		}
	}
}

// hold holds the fault for a while, in which the ferry may not knock too often. While the link is cut, nobody counts but the ferry itself.
func (c *crossroads) hold(t *testing.T) {
	t.Helper()
	const (
		seconds = 3
		most    = 20 * seconds // On each of the routes.
	)
	count := func() (attempts [2]int, accepted int) {
		return [2]int{int(c.ferry.Attempts(c.into)), int(c.ferry.Attempts(c.outOf))}, c.link.Accepted()
	}
	before, acceptedBefore := count()
	c.ferry.MaxRSS(t, seconds*time.Second)
	attempts, accepted := count()
	for i := range attempts {
		attempts[i] -= before[i]
		require.LessOrEqual(t, attempts[i], most, "failed attempts within %d s", seconds)
	}
	accepted -= acceptedBefore
	require.LessOrEqual(t, accepted, 2*most, "connections within %d s", seconds)
	t.Logf("within %d s %v attempts and %d connections", seconds, attempts, accepted)
}

// waitMore waits until both routes have carried more.
func (c *crossroads) waitMore(t *testing.T) {
	t.Helper()
	into, outOf := c.ferry.Confirmed(c.into), c.ferry.Confirmed(c.outOf)
	c.ferry.WaitConfirmed(t, c.into, into+500, time.Minute)
	c.ferry.WaitConfirmed(t, c.outOf, outOf+500, time.Minute)
}

func TestNothingIsLostWhateverHappensToARabbitMQ(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, r rabbit, f fault) {
		c := newCrossroads(t, r)
		c.outOf.Send(t, 10_000) // Some ten seconds.
		stop := c.into.Load(t, 500)
		c.run(t)
		c.waitMore(t)
		c.begin(t, f)
		c.hold(t)
		f.end(t, r, c.queue)
		c.outOf.WantUnacked(t)
		c.waitMore(t)
		c.ferry.WaitReady(t, time.Minute)

		// Again, and now it has to stop.
		c.begin(t, f)
		c.ferry.Terminate(t, rabbitStopTime)
		f.end(t, r, c.queue)
		stop()
		c.slow.Bandwidth(0)
		c.run(t)
		c.into.WaitAcked(t, time.Minute)
		c.outOf.WaitAcked(t, time.Minute)
		t.Log("into it: ", c.into.WantAtMost(t, 2*rabbitWindow))
		duplicates := 2 * rabbitWindow
		if f.name == "killed" {
			duplicates = c.outOf.Sent() // It forgets the acks that it had not written yet.
		}
		t.Log("out of it: ", c.outOf.WantAtMost(t, duplicates))
		c.ferry.Stop(t, stopTime)
	})
}

func TestADestinationQueueThatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	q := integration.NewRabbitMQ(t, "far", brokers.RabbitMQ(t, "a"))
	route := integration.NewRoute(redis().end(t, "near", brokers.Redis(t, "a")), q)
	ferry := integration.Run(t, integration.Config(rabbitConfig, route))
	stop := route.Load(t, 1000)
	ferry.WaitConfirmed(t, route, 1000, time.Minute)
	q.DeleteQueue(t)
	deleted := route.Sent()
	confirmed := ferry.Confirmed(route)
	ferry.WaitConfirmed(t, route, confirmed+2000, time.Minute)
	stop()
	route.WaitAcked(t, time.Minute)
	ferry.WaitReady(t, 30*time.Second)
	route.WantOneGap(t, deleted, rabbitWindow)
	ferry.Stop(t, stopTime)
}

func TestASourceQueueThatIsDeletedIsReadOnWhenItIsMadeAgain(t *testing.T) {
	t.Parallel()
	q := integration.NewRabbitMQ(t, "near", brokers.RabbitMQ(t, "a"))
	destination := brokers.RedisOwn(t)
	slow := destination.Link(t)
	slow.Bandwidth(1 << 20)
	route := integration.NewRoute(q, integration.NewRedis(t, "far", destination).Through(slow.Address()))
	route.Send(t, 5000)
	ferry := integration.Run(t, integration.Config(rabbitConfig, route))
	ferry.WaitConfirmed(t, route, 500, time.Minute)
	require.NotZero(t, q.DeleteQueue(t), "everything was read already")
	deleted := route.Sent()
	ferry.WaitTrouble(t, route, 30*time.Second, "near")
	attempts := ferry.Attempts(route)
	ferry.MaxRSS(t, 3*time.Second)
	require.LessOrEqual(t, ferry.Attempts(route)-attempts, 60.0, "attempts while there is no queue")
	slow.Bandwidth(0)
	q.MakeQueue(t)
	route.Send(t, 5000)
	route.WaitAcked(t, time.Minute)
	ferry.WaitReady(t, 30*time.Second)
	route.WantOneGap(t, deleted, rabbitWindow)
	ferry.Stop(t, stopTime)
}

// limited makes a quorum queue that lets a message be delivered three times more and then puts it into another queue.
func limited(t *testing.T, site string, b *brokers.Broker) (q, dead *integration.RabbitMQ) {
	t.Helper()
	dead = integration.NewRabbitMQ(t, "dead", b)
	q = integration.NewRabbitMQ(t, site, b, "x-queue-type=quorum", "x-delivery-limit=3",
		"x-dead-letter-exchange=", "x-dead-letter-routing-key="+dead.Topic())
	return q, dead
}

// deadLetters says how many messages are in the queue.
func deadLetters(t *testing.T, dead *integration.RabbitMQ) string {
	t.Helper()
	return integration.NewRoute(dead, dead).Missing()
}

func TestNoFailureOfTheDestinationUsesUpTheDeliveryLimitOfAQuorumQueue(t *testing.T) {
	t.Parallel()
	q, dead := limited(t, "near", brokers.RabbitMQ(t, "b"))
	destination := brokers.RedisOwn(t)
	route := integration.NewRoute(q, redis().end(t, "far", destination))
	ferry := integration.Run(t, integration.Config(rabbitConfig, route))
	stop := route.Load(t, 1000)
	for range 5 {
		ferry.WaitConfirmed(t, route, ferry.Confirmed(route)+500, time.Minute)
		destination.Kill(t)
		ferry.WaitTrouble(t, route, 30*time.Second, "far")
		destination.Start(t)
	}
	stop()
	route.WaitAcked(t, time.Minute)
	require.Empty(t, deadLetters(t, dead))
	t.Log(route.WantAtMost(t, 5*rabbitWindow))
	ferry.Stop(t, stopTime)
}

func TestNoStartWithoutADestinationUsesUpTheDeliveryLimitOfAQuorumQueue(t *testing.T) {
	t.Parallel()
	q, dead := limited(t, "near", brokers.RabbitMQ(t, "b"))
	destination := brokers.RedisOwn(t)
	route := integration.NewRoute(q, redis().end(t, "far", destination))
	route.Send(t, 3000)
	destination.Stop(t)
	for range 5 {
		ferry := integration.Run(t, integration.Config(rabbitConfig, route))
		ferry.WaitTrouble(t, route, 30*time.Second, "far")
		ferry.Stop(t, rabbitStopTime) // With nothing in flight.
	}
	require.Empty(t, deadLetters(t, dead))
	destination.Start(t)
	ferry := integration.Run(t, integration.Config(rabbitConfig, route))
	route.WaitAcked(t, time.Minute)
	require.Empty(t, deadLetters(t, dead))
	route.WantExactlyOnce(t)
	ferry.Stop(t, stopTime)
}

func TestNoCleanStopUsesUpTheDeliveryLimitOfAQuorumQueue(t *testing.T) {
	t.Parallel()
	q, dead := limited(t, "near", brokers.RabbitMQ(t, "b"))
	destination := brokers.RedisOwn(t)
	slow := destination.Link(t)
	slow.Bandwidth(1 << 20)
	route := integration.NewRoute(q, integration.NewRedis(t, "far", destination).Through(slow.Address()))
	route.Send(t, 10_000)
	for range 5 { // With few in flight a stop is soon over; some more wait in the client and go back.
		ferry := integration.Run(t, integration.Config("defaults: {window: 200}", route))
		ferry.WaitConfirmed(t, route, 1, time.Minute)
		ferry.Stop(t, stopTime)
		route.WantUnacked(t)
	}
	slow.Bandwidth(0)
	ferry := integration.Run(t, integration.Config(rabbitConfig, route))
	route.WaitAcked(t, time.Minute)
	require.Empty(t, deadLetters(t, dead))
	route.WantExactlyOnce(t)
	ferry.Stop(t, stopTime)
}
