package rabbitmq_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/integration/brokers"
)

// quick is a data center whose trouble is found soon.
func quick(c *rabbitmq.Config) { c.Heartbeat = config.Duration(time.Second) }

// both are the kinds that differ in how they take deliveries back.
func both() map[string]amqp.Table {
	return map[string]amqp.Table{"classic": {"x-queue-type": "classic"}, "quorum": {"x-queue-type": "quorum"}}
}

// hangUp closes the connections of sources over the management API, and tells how many there were.
func hangUp(t *testing.T, b *brokers.Broker) (closed int) {
	t.Helper()
	var all []struct {
		Name       string         `json:"name"`
		Properties map[string]any `json:"client_properties"`
	}
	manage(t, http.MethodGet, b.ManagementURL()+"/api/connections", &all)
	for _, c := range all {
		if name, _ := c.Properties["connection_name"].(string); name == "mqferry test: source of test" {
			manage(t, http.MethodDelete, b.ManagementURL()+"/api/connections/"+url.PathEscape(c.Name), nil)
			closed++
		}
	}
	return closed
}

func manage(t *testing.T, method, address string, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	if into == nil {
		require.Contains(t, []int{http.StatusNoContent, http.StatusNotFound}, response.StatusCode)
		return
	}
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
}

func TestConnectionsThatAreHungUpOnLoseAndReorderNothing(t *testing.T) {
	lengthy(t)
	t.Parallel()
	broker := brokers.RabbitMQOwn(t)
	for kind, arguments := range both() {
		t.Run(kind, func(t *testing.T) {
			if kind != "quorum" {
				brokers.Long(t)
			}
			w := newWell(t, broker.URL())
			w.source.Window = 500
			w.declare(arguments)
			const n = 10_000
			w.produce(0, n)
			f := w.flow()
			for i := range 4 {
				w.settled(2000*i + 1000)
				release := w.hold()
				before := w.source.Meter.Reconnects.Load()
				w.eventually(func() bool { return hangUp(t, broker) > 0 }, "there is no connection")
				w.eventually(func() bool { return w.source.Meter.Reconnects.Load() > before }, "nobody noticed")
				release()
			}
			require.Less(t, w.committed(), n, "it was over too early")
			w.last(n)
			f.stop()
			w.requireArrived(n, 4*w.source.Window)
			require.Zero(t, w.left())
		})
	}
}

func TestABrokerThatCrashesLosesAndReordersNothing(t *testing.T) {
	lengthy(t)
	t.Parallel()
	for kind, arguments := range both() {
		t.Run(kind, func(t *testing.T) {
			if kind != "classic" {
				brokers.Long(t)
			}
			broker := brokers.RabbitMQOwn(t)
			w := newWell(t, broker.URL())
			w.source.Window = 500
			w.declare(arguments)
			const n = 30_000
			w.produce(0, n)
			f := w.flow()
			for i := range 2 {
				w.settled(w.committed() + 3000*(i+1))
				broker.Kill(t)
				w.isUp(false)
				broker.Start(t)
				w.isUp(true)
			}
			require.Less(t, w.committed(), n, "it was over too early")
			w.last(n)
			f.stop()
			w.requireArrived(n, n) // RabbitMQ does not confirm acks: it may forget some when it crashes.
			require.Zero(t, w.left())
		})
	}
}

func TestABrokerThatStandsStillIsGivenUpAndUsedAgain(t *testing.T) {
	lengthy(t)
	t.Parallel()
	for kind, arguments := range both() {
		t.Run(kind, func(t *testing.T) {
			if kind != "quorum" {
				brokers.Long(t)
			}
			broker := brokers.RabbitMQOwn(t)
			w := newWell(t, broker.URL())
			w.config = quick
			w.source.Window = 500
			w.declare(arguments)
			const n = 60_000
			w.produce(0, n)
			f := w.flow()
			w.settled(2000)
			broker.Pause(t)
			w.isUp(false)
			broker.Resume(t)
			w.last(n)
			w.isUp(true)
			f.stop()
			w.requireArrived(n, 2*w.source.Window)
			require.Zero(t, w.left())
		})
	}
}

func TestALinkThatGoesDeadIsGivenUpAndUsedAgain(t *testing.T) {
	t.Parallel()
	broker := brokers.RabbitMQ(t, "a")
	for kind, arguments := range both() {
		t.Run(kind, func(t *testing.T) {
			if kind != "classic" {
				brokers.Long(t)
			}
			w := newWell(t, broker.URL())
			w.config = quick
			w.source.Window = 500
			w.declare(arguments)
			const n = 40_000
			w.produce(0, n)
			link := broker.Link(t)
			w.url = broker.URLAt(link.Address())
			f := w.flow()
			w.settled(2000)
			link.Stall()
			w.isUp(false)
			require.NoError(t, link.Heal())
			w.last(n)
			w.isUp(true)
			f.stop()
			w.requireArrived(n, 2*w.source.Window)
			require.Zero(t, w.left())
		})
	}
}

func TestAQueueThatIsDeletedAndMadeAgainIsReadOn(t *testing.T) {
	for kind, arguments := range both() {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.declare(arguments)
			w.produce(0, 20_000)
			f := w.flow()
			w.settled(2000)
			w.channel(func(ch *amqp.Channel) {
				_, err := ch.QueueDelete(w.in, false, false, false)
				require.NoError(t, err)
			})
			require.ErrorContains(t, w.isUp(false), "cancelled the consumer")
			w.eventually(func() bool {
				_, _, err := w.source.Health.State()
				return err != nil && err.Error() != "" && w.source.Meter.Fetched.Load() == int64(w.committed())
			}, "what was fetched is not delivered")
			before := w.committed()
			w.declare(arguments)
			w.produce(before, before+5000)
			w.settled(before + 5000)
			w.isUp(true)
			f.stop()
			w.requireArrived(before+5000, 0)
			require.Zero(t, w.left())
		})
	}
}

func TestAConsumerThatRabbitMQGivesUpWaitsForTheDestination(t *testing.T) {
	t.Parallel()
	broker := brokers.RabbitMQOwn(t)
	broker.Ctl(t, "eval", "[application:set_env(rabbit, K, V) || {K, V} <- [{consumer_timeout, 1000}, {channel_tick_interval, 500}]].")
	for kind, arguments := range map[string]amqp.Table{"classic": nil, "quorum": {"x-queue-type": "quorum", "x-delivery-limit": int64(3)}} {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, broker.URL())
			w.source.Window = 200
			w.declare(arguments)
			const n = 20_000
			w.produce(0, n)
			f := w.flow()
			w.settled(500)
			w.destination.Down()
			require.ErrorContains(t, w.isUp(false), "consumed again when the destination is back")
			fetched := w.source.Meter.Fetched.Load()
			w.stays(false)
			require.Equal(t, fetched, w.source.Meter.Fetched.Load(), "it was consumed again")
			w.destination.Up()
			w.last(n)
			f.stop()
			w.requireArrived(n, 2*w.source.Window)
			require.Zero(t, w.left())
		})
	}
}

func TestOutagesOfTheDestinationAreNoDeliveriesThatCount(t *testing.T) {
	t.Parallel()
	broker := brokers.RabbitMQOwn(t)
	w := newWell(t, broker.URL())
	w.source.Window = 200
	w.declare(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(3)})
	const n = 20_000
	w.produce(0, n)
	f := w.flow()
	for i := range 5 {
		w.settled(2000 * (i + 1))
		w.destination.Down()
		w.eventually(func() bool { up, _, _ := w.health.State(); return !up }, "nobody noticed the outage")
		if i < 2 { // The source goes too.
			w.eventually(func() bool { return hangUp(t, broker) > 0 }, "there is no connection")
			require.ErrorContains(t, w.isUp(false), "when the destination is back")
			w.stays(false)
		}
		w.destination.Up()
	}
	require.Less(t, w.committed(), n, "it was over too early")
	w.last(n)
	f.stop()
	w.requireArrived(n, 2*2*w.source.Window)
	require.Zero(t, w.left())
}
