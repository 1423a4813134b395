package rabbitmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/integration/brokers"
)

// finishTime is how long a stop lets what was prefetched go through.
const finishTime = 5 * time.Second

// kinds are the queues that can be sources.
func kinds() map[string]amqp.Table {
	return map[string]amqp.Table{
		"classic":                {"x-queue-type": "classic"},
		"quorum":                 {"x-queue-type": "quorum"},
		"single active consumer": {"x-single-active-consumer": true},
	}
}

func TestAQueueIsReadInOrderAndAckedUpToTheLastMessage(t *testing.T) {
	for kind, arguments := range kinds() {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.declare(arguments)
			const n = 20_000
			w.produce(0, n)
			f := w.flow()
			w.settled(n)
			w.isUp(true)
			f.stop()
			w.requireArrived(n, 0)
			require.Zero(t, w.left())
		})
	}
}

func TestNoMoreThanTheWindowIsInFlightAndWhatIsNotAckedStaysInTheQueue(t *testing.T) {
	w := newWell(t, brokers.RabbitMQ(t, "a").URL())
	w.source.Window = 10
	w.declare(nil)
	w.produce(0, 100)
	s := w.subscriber()
	messages := w.subscribe(s)
	var got []*message.Message
	for range 10 {
		got = append(got, w.receive(messages))
	}
	w.silent(messages)
	got[1].Ack()
	w.silent(messages)
	got[0].Ack()
	require.Equal(t, "10", string(w.receive(messages).Payload))
	w.eventually(func() bool { return w.committed() == 2 }, "the prefix is not acked")
	w.within("close", func() { require.NoError(t, s.Close()) })
	require.Equal(t, 98, w.left())
}

func TestStopsUnderABacklogRepeatNothingAndAreNoDeliveriesThatCount(t *testing.T) {
	for kind, arguments := range map[string]amqp.Table{"classic": nil, "quorum": {"x-queue-type": "quorum", "x-delivery-limit": int64(3)}} {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.source.Window = 4000
			w.declare(arguments)
			const n = 50_000
			w.produce(0, n)
			for range 6 {
				f := w.flow()
				w.settled(w.committed() + 1) // Far less than was prefetched.
				require.Less(t, f.stop(), finishTime+4*time.Second, "the stop took long")
			}
			require.Less(t, w.committed(), n, "the backlog is too small")
			w.requireArrived(w.committed(), 0)
			require.Equal(t, n-w.committed(), w.left())
			f := w.flow()
			w.settled(n)
			f.stop()
			w.requireArrived(n, 0)
			require.Zero(t, w.left())
		})
	}
}

func TestAQueueThatIsMissingIsNotMadeAndReadOnceItIsThere(t *testing.T) {
	w := newWell(t, brokers.RabbitMQ(t, "a").URL())
	f := w.flow()
	require.ErrorContains(t, w.isUp(false), w.in+" does not exist: declare it, and the route goes on")
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclarePassive(w.in, true, false, false, false, nil)
		require.Error(t, err, "it was made")
	})
	w.declare(nil)
	w.produce(0, 100)
	w.settled(100)
	w.isUp(true)
	require.Zero(t, w.source.Meter.Reconnects.Load(), "the connection was good all the time")
	f.stop()
	w.requireArrived(100, 0)
}

func TestAStreamIsRefusedAndNothingOfItIsRead(t *testing.T) {
	w := newWell(t, brokers.RabbitMQ(t, "a").URL())
	w.declare(amqp.Table{"x-queue-type": "stream"})
	f := w.flow()
	require.ErrorContains(t, w.isUp(false), "is a stream, which cannot be a source")
	w.produce(0, 10)
	w.stays(false)
	require.Zero(t, w.source.Meter.Fetched.Load())
	f.stop()
}

func TestOfTwoInstancesOneStandsByAndTakesOver(t *testing.T) {
	for kind, arguments := range kinds() {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.declare(arguments)
			w.produce(0, 1000)
			first := w.flow()
			w.settled(1000)
			other := w.again()
			second := other.flow()
			require.ErrorContains(t, other.isUp(false), "another instance consumes, standing by")
			w.produce(1000, 2000)
			w.settled(2000)
			require.Zero(t, other.source.Meter.Fetched.Load())
			other.stays(false)
			first.stop()
			w.produce(2000, 3000)
			other.settled(1000)
			other.isUp(true)
			second.stop()
			w.requireArrived(3000, 0)
		})
	}
}

func TestInstancesThatStartTogetherDoNotBothConsume(t *testing.T) {
	for kind, arguments := range kinds() {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.declare(arguments)
			w.produce(0, 3000)
			flows := []*flow{w.flow()}
			others := []*well{w.again(), w.again(), w.again()}
			for _, o := range others {
				flows = append(flows, o.flow())
			}
			w.eventually(func() bool {
				sum := w.committed()
				for _, o := range others {
					sum += o.committed()
				}
				return sum >= 3000
			}, "not everything was acked")
			for _, f := range flows {
				f.stop()
			}
			w.requireArrived(3000, 0)
		})
	}
}

func TestASharedQueueFeedsAllInstances(t *testing.T) {
	w := newWell(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exclusive = false
	w.source.Window = 10
	w.declare(nil)
	other := w.again()
	one, two := w.subscriber(), other.subscriber()
	ones, twos := w.subscribe(one), other.subscribe(two)
	w.isUp(true)
	other.isUp(true)
	w.produce(0, 100)
	w.receive(ones).Ack()
	w.receive(twos).Ack()
}

func TestAnExchangeIsReadThroughAQueueOfItsOwn(t *testing.T) {
	for kind := range map[rabbitmq.QueueType]bool{"": true, rabbitmq.Quorum: true} {
		t.Run("type "+string(kind), func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.own.Exchange, w.own.QueueType, w.own.RoutingKey = "exchange-"+w.in, kind, []string{"orders.#", "bills"}
			f := w.flow()
			require.ErrorContains(t, w.isUp(false), `exchange "`+w.own.Exchange+`" of here does not exist`)
			w.channel(func(ch *amqp.Channel) {
				require.NoError(t, ch.ExchangeDeclare(w.own.Exchange, "topic", true, false, false, false, nil))
			})
			w.isUp(true)
			w.send("orders.1", "bills", "other", "orders.2.3")
			w.settled(3)
			f.stop()
			w.send("orders.4") // It is durable.
			f = w.flow()
			w.settled(4)
			w.channel(func(ch *amqp.Channel) {
				_, err := ch.QueueDelete(w.in, false, false, false)
				require.NoError(t, err)
			})
			w.isUp(false)
			w.isUp(true)
			require.EqualValues(t, 1, w.source.Meter.Recreated.Load())
			w.send("orders.5")
			w.settled(5)
			f.stop()
			var got []string
			for _, r := range w.destination.Messages(wellTopic) {
				got = append(got, string(r.Value))
			}
			require.Equal(t, "orders.1 bills orders.2.3 orders.4 orders.5", strings.Join(got, " "))
		})
	}
}

func TestAQueueOfItsOwnThatWasNotBoundIsBound(t *testing.T) {
	w := newWell(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exchange = "exchange-" + w.in
	w.declare(nil)
	w.channel(func(ch *amqp.Channel) {
		require.NoError(t, ch.ExchangeDeclare(w.own.Exchange, "fanout", true, false, false, false, nil))
	})
	f := w.flow()
	w.isUp(true)
	w.send("anything")
	w.settled(1)
	f.stop()
}

func TestAUserWithoutRightsIsToldSo(t *testing.T) {
	broker := brokers.RabbitMQ(t, "a")
	w := newWell(t, broker.URL())
	w.declare(nil)
	name := "user-" + w.in
	broker.Ctl(t, "add_user", name, "secret")
	broker.Ctl(t, "set_permissions", name, ".*", ".*", "")
	w.config = func(c *rabbitmq.Config) { c.Username, c.Password = name, "secret" }
	f := w.flow()
	require.ErrorContains(t, w.isUp(false), "permission to read the queue")
	broker.Ctl(t, "set_permissions", name, "", "", ".*")
	w.isUp(true)
	f.stop()
}

func TestAQueueHasNoPositionsToStartFrom(t *testing.T) {
	c, s, _ := rabbitmq.DefaultConfig()
	require.NoError(t, c.CheckSource(config.Source{}, s))
	require.ErrorContains(t, c.CheckSource(config.Source{Start: config.Start{Latest: true}}, s), "a queue has no positions")
	require.ErrorContains(t, c.CheckSource(config.Source{Start: config.Start{Time: time.Now()}}, s), "a queue has no positions")
}
