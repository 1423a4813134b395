package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/integration/brokers"
)

// state brings a route into a state in which it is to be ended, and tells what else it opened.
type state struct {
	name string
	// clean says that nothing is in flight, so that the route can be stopped too, not only given up.
	clean bool
	enter func(w *well, broker *brokers.Broker) *flow
}

func states() []state {
	return []state{
		{"while it is idle", true, func(w *well, _ *brokers.Broker) *flow {
			w.declare(nil)
			f := w.flow()
			w.isUp(true)
			return f
		}},
		{"while the queue is missing", true, func(w *well, _ *brokers.Broker) *flow {
			f := w.flow()
			w.isUp(false)
			return f
		}},
		{"while another one consumes", true, func(w *well, _ *brokers.Broker) *flow {
			w.declare(nil)
			first := w.flow()
			w.isUp(true)
			w.Cleanup(func() { first.kill() })
			other := w.again()
			f := other.flow()
			other.isUp(false)
			return f
		}},
		{"while RabbitMQ is gone", true, func(w *well, broker *brokers.Broker) *flow {
			w.declare(nil)
			f := w.flow()
			w.isUp(true)
			broker.Kill(w)
			w.Cleanup(func() { broker.Start(w) })
			w.isUp(false)
			return f
		}},
		{"while the destination is down", false, func(w *well, _ *brokers.Broker) *flow {
			w.declare(nil)
			w.produce(0, 20_000)
			return w.stuck()
		}},
		{"while the gate is shut", false, func(w *well, _ *brokers.Broker) *flow {
			w.source.Bytes, w.source.Budget = 1<<20, lane.NewBudget(1<<20)
			w.declare(amqp.Table{"x-queue-type": "quorum"})
			w.produceSized(0, 500, 100_000)
			return w.stuck()
		}},
		{"while RabbitMQ stands still", false, func(w *well, broker *brokers.Broker) *flow {
			w.declare(nil)
			w.produce(0, 50_000)
			f := w.flow()
			w.settled(1000)
			broker.Pause(w)
			w.Cleanup(func() { broker.Resume(w) })
			return f
		}},
		{"while RabbitMQ stands still and the gate is shut", false, func(w *well, broker *brokers.Broker) *flow {
			w.source.Bytes, w.source.Budget = 1<<20, lane.NewBudget(1<<20)
			w.declare(nil)
			w.produceSized(0, 500, 100_000)
			f := w.stuck()
			broker.Pause(w)
			w.Cleanup(func() { broker.Resume(w) })
			return f
		}},
		{"while it waits for the destination", false, func(w *well, broker *brokers.Broker) *flow {
			w.declare(nil)
			w.produce(0, 20_000)
			f := w.stuck()
			broker.Ctl(w, "close_all_connections", "test")
			require.ErrorContains(w, w.isUp(false), "when the destination is back")
			return f
		}},
	}
}

// stuck starts a route whose destination is down, and waits until it is full.
func (w *well) stuck() *flow {
	w.Helper()
	f := w.flow()
	w.destination.Down()
	w.eventually(func() bool { up, _, _ := w.health.State(); return !up }, "the destination is up")
	w.eventually(func() bool { return w.source.Meter.Fetched.Load() > 5 }, "nothing comes")
	return f
}

func TestARouteEndsSoon(t *testing.T) {
	lengthy(t)
	t.Parallel()
	broker := brokers.RabbitMQOwn(t)
	for _, s := range states() {
		t.Run(s.name, func(t *testing.T) {
			if s.clean {
				t.Run("when it is stopped", func(t *testing.T) {
					require.Less(t, s.enter(newWell(t, broker.URL()), broker).stop(), 5*time.Second)
				})
			}
			t.Run("when it is given up", func(t *testing.T) {
				require.Less(t, s.enter(newWell(t, broker.URL()), broker).kill(), 5*time.Second)
			})
		})
	}
}
