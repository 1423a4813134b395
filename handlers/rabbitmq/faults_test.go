package rabbitmq_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// fault is something that happens to a RabbitMQ under load.
type fault struct {
	begin, end func(testing.TB, *brokers.Broker)
	repeats    int // The most messages that may come twice.
	reconnects int // The least number of connections made again.
}

const faultWindow = 500

func faults() map[string]fault {
	nothing := func(testing.TB, *brokers.Broker) {}
	return map[string]fault{
		"it is killed": {
			begin:   func(t testing.TB, b *brokers.Broker) { b.Kill(t) },
			end:     func(t testing.TB, b *brokers.Broker) { b.Start(t) },
			repeats: 3 * faultWindow, reconnects: 1,
		},
		"it is stopped": {
			begin:   func(t testing.TB, b *brokers.Broker) { b.Stop(t) },
			end:     func(t testing.TB, b *brokers.Broker) { b.Start(t) },
			repeats: 3 * faultWindow, reconnects: 1,
		},
		"it is paused for a while": {
			begin: func(t testing.TB, b *brokers.Broker) { b.Pause(t) },
			end:   func(t testing.TB, b *brokers.Broker) { b.Resume(t) },
		},
		"its connections are closed": {
			begin:   func(t testing.TB, b *brokers.Broker) { b.Ctl(t, "close_all_connections", "a test") },
			end:     nothing,
			repeats: 3 * faultWindow, reconnects: 1,
		},
		"its memory alarm is raised": {
			begin: func(t testing.TB, b *brokers.Broker) { b.Ctl(t, "set_vm_memory_high_watermark", "0.0000001") },
			end:   func(t testing.TB, b *brokers.Broker) { b.Ctl(t, "set_vm_memory_high_watermark", "0.6") },
		},
	}
}

func TestNothingIsLostOrOvertakenWhen(t *testing.T) {
	lengthy(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, b.URL())
			w.window = faultWindow
			w.own.ConfirmTimeout = config.Duration(5 * time.Second)
			r := w.start()
			w.produce(0, 3000, 3)
			w.eventually(func() bool { return w.meter.Committed.Load() > 1000 }, "nothing was acked")
			f.begin(t, b)
			w.produce(3000, 6000, 3)
			f.end(t, b)
			w.settled(6000)
			r.stop()
			repeats := w.requireOrder(w.arrived(w.out), 6000, 3)
			require.LessOrEqual(t, repeats, f.repeats, "came twice")
			require.GreaterOrEqual(t, int(w.destination.Meter.Reconnects.Load()), f.reconnects)
			require.LessOrEqual(t, int(w.destination.Meter.Failed.Load()), 3*faultWindow+300, "attempts that failed")
			if f.reconnects == 0 {
				require.Zero(t, w.destination.Meter.Reconnects.Load(), "connections made again")
			}
		})
	}
}

func TestTheEndIsAtOnceWhile(t *testing.T) {
	lengthy(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, b.URL())
			w.window = faultWindow
			r := w.start()
			w.produce(0, 1000, 3)
			w.eventually(func() bool { return w.meter.Committed.Load() > 100 }, "nothing was acked")
			f.begin(t, b)
			defer f.end(t, b)
			w.produce(1000, 10000, 3)
			r.kill()
		})
	}
}

func TestAPausedRabbitMQIsGivenUpAndComesBack(t *testing.T) {
	lengthy(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	w := newWorld(t, b.URL())
	w.config = func(c *rabbitmq.Config) { c.Heartbeat = config.Duration(time.Second) }
	r := w.start()
	w.produce(0, 100, 1)
	w.settled(100)
	b.Pause(t)
	w.produce(100, 200, 1)
	w.eventually(func() bool {
		up, _, _ := w.destination.Health.State()
		return !up
	}, "it is still shown up")
	b.Resume(t)
	w.settled(200)
	r.stop()
	w.requireOrder(w.arrived(w.out), 200, 1)
	require.Positive(t, w.destination.Meter.Reconnects.Load())
}

func TestABlockedConnectionHoldsAndIsShownDown(t *testing.T) {
	lengthy(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	w := newWorld(t, b.URL())
	w.own.ConfirmTimeout = config.Duration(time.Second)
	w.config = func(c *rabbitmq.Config) { c.Heartbeat = config.Duration(time.Second) }
	r := w.start()
	w.produce(0, 100, 1)
	w.settled(100)
	b.Ctl(t, "set_vm_memory_high_watermark", "0.0000001")
	w.produce(100, 5000, 1)
	w.eventually(func() bool {
		_, _, err := w.destination.Health.State()
		return err != nil
	}, "it is still shown up")
	_, since, err := w.destination.Health.State()
	require.ErrorContains(t, err, "low on memory")
	w.eventually(func() bool { return time.Since(since) > 5*time.Second }, "time does not pass")
	up, _, _ := w.destination.Health.State()
	require.False(t, up, "it is shown up while it is blocked")
	b.Ctl(t, "set_vm_memory_high_watermark", "0.6")
	w.settled(5000)
	r.stop()
	require.Zero(t, w.requireOrder(w.arrived(w.out), 5000, 1), "came twice")
	require.Zero(t, w.destination.Meter.Failed.Load()+w.destination.Meter.Reconnects.Load())
}

func TestAnIdleDestinationIsShownDownAndUp(t *testing.T) {
	lengthy(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	w := newWorld(t, b.URL())
	w.publisher()
	up := func(want bool) func() bool {
		return func() bool {
			up, _, _ := w.destination.Health.State()
			return up == want
		}
	}
	w.eventually(up(true), "it is not shown up")
	b.Kill(t)
	w.eventually(up(false), "it is not shown down")
	b.Start(t)
	w.eventually(up(true), "it is not shown up again")
}

func TestAQueueDeletedUnderLoadIsMadeAgain(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	r := w.start()
	w.produce(0, 2000, 2)
	w.eventually(func() bool { return w.meter.Committed.Load() > 500 }, "nothing was acked")
	w.delete(w.out)
	w.produce(2000, 4000, 2)
	w.settled(4000)
	r.stop()
	got := map[string]bool{}
	for _, p := range w.arrived(w.out) {
		got[p] = true
	}
	// Of those before nothing can be said: RabbitMQ acks hundreds that were on their way into the queue when it was deleted.
	for n := 2000; n < 4000; n++ {
		require.True(t, got[strconv.Itoa(n)], "%d is lost", n)
	}
	require.LessOrEqual(t, w.destination.Meter.Recreated.Load(), int64(1))
	require.LessOrEqual(t, w.destination.Meter.Failed.Load()+w.destination.Meter.Refused.Load(), int64(1500), "attempts")
}

func TestAStalledLinkIsGivenUpAndEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := brokers.RabbitMQ(t, "a")
	link := b.Link(t)
	w := newWorld(t, b.URLAt(link.Address()))
	w.config = func(c *rabbitmq.Config) {
		c.Heartbeat, c.DialTimeout = config.Duration(time.Second), config.Duration(time.Second)
	}
	w.window = 5000
	r := w.start()
	w.produce(0, 100, 2)
	w.settled(100)
	for n := 100; n < 2000; n++ { // More than fits on the way.
		payload := strconv.Itoa(n) + strings.Repeat(" ", 20000)
		w.site.Produce(memoryTopic, n%2, &record.Record{Value: []byte(payload)})
	}
	link.Stall()
	w.eventually(func() bool {
		up, _, _ := w.destination.Health.State()
		return !up
	}, "it is still shown up")
	require.NoError(t, link.Heal())
	w.settled(2000)
	for n := 2000; n < 6000; n++ {
		w.site.Produce(memoryTopic, n%2, &record.Record{Value: make([]byte, 20000)})
	}
	link.Stall()
	r.kill()
	require.NoError(t, link.Heal())
	w.url = b.URL()
	seen := map[string]bool{}
	for _, p := range w.arrived(w.out) {
		if number := strings.TrimSpace(p); len(number) < 10 {
			seen[number] = true
		}
	}
	require.Len(t, seen, 2000, "messages are missing")
}
