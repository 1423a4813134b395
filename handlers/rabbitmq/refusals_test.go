package rabbitmq_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// held waits until the route's lane holds, looks that it is not in a hot loop, and gives the error.
func (w *world) held(text string) {
	w.Helper()
	attempts := func() int64 { return w.destination.Meter.Failed.Load() + w.destination.Meter.Refused.Load() }
	w.eventually(func() bool {
		up, _, err := w.destination.Health.State()
		return !up && err != nil && strings.Contains(err.Error(), text)
	}, "it is not shown down with "+text)
	began := time.Now()
	w.eventually(func() bool { return time.Since(began) > time.Second }, "time does not pass") // What was on its way comes back.
	before := attempts()
	w.eventually(func() bool { return time.Since(began) > 2*time.Second }, "time does not pass")
	require.LessOrEqual(w, attempts()-before, int64(30), "attempts within a second")
}

func TestAMissingQueueThatIsNotToBeMadeHolds(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Create = false
	r := w.start()
	w.produce(0, 2000, 2)
	w.held("create: true")
	require.Zero(t, w.meter.Committed.Load())
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
		require.NoError(t, err)
	})
	w.settled(2000)
	r.stop()
	require.Zero(t, w.requireOrder(w.arrived(w.out), 2000, 2))
}

func TestAReturnedMessageHoldsItsLaneUntilAQueueTakesIt(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exchange = w.out + "-exchange"
	w.window = 5000
	template, err := record.ParseTemplate("key.{topic}")
	require.NoError(t, err)
	w.own.RoutingKey = &template
	r := w.start()
	w.produce(0, 2000, 2)
	w.held("NO_ROUTE")
	require.Zero(t, w.meter.Committed.Load())
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ch.QueueBind(w.out, "key."+memoryTopic, w.own.Exchange, false, nil))
	})
	w.settled(2000)
	r.stop()
	require.Zero(t, w.requireOrder(w.arrived(w.out), 2000, 2))
}

func TestOnlyReturnedMessagesOfManyAreHeld(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exchange, w.own.ExchangeType, w.own.Channels = w.out+"-exchange", "headers", 1
	const lanes = 10
	w.channel(func(ch *amqp.Channel) {
		require.NoError(t, ch.ExchangeDeclare(w.own.Exchange, "headers", true, false, false, false, nil))
		_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ch.QueueBind(w.out, "", w.own.Exchange, false, amqp.Table{"route": "yes"}))
	})
	// The same payload and key everywhere: only a header tells which one was returned.
	for n := range 1000 {
		route := "yes"
		if n%lanes == 7 {
			route = "no"
		}
		w.site.Produce(memoryTopic, n%lanes, &record.Record{
			ID: "same", Value: []byte("same"), Headers: []record.Header{{Key: "route", Value: []byte(route)}},
		})
	}
	r := w.start()
	w.settled(900)
	w.held("NO_ROUTE")
	require.Equal(t, int64(900), w.meter.Committed.Load())
	require.Zero(t, w.site.Committed(memoryTopic, group, 7))
	r.kill()
	require.Len(t, w.arrived(w.out), 900)
}

func TestAFullQueueHoldsUntilThereIsRoom(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.QueueArguments = map[string]any{"x-max-length": 100, "x-overflow": "reject-publish"}
	r := w.start()
	w.produce(0, 300, 1)
	w.held("full")
	require.Less(t, w.meter.Committed.Load(), int64(300))
	var got []string
	w.eventually(func() bool {
		got = append(got, w.arrived(w.out)...)
		return w.meter.Committed.Load() == 300
	}, "it does not go on")
	r.stop()
	got = append(got, w.arrived(w.out)...)
	numbers := map[string]bool{}
	for _, p := range got {
		numbers[p] = true
	}
	require.Len(t, numbers, 300, "messages are missing")
	require.Len(t, got, 300, "messages came twice")
}

func TestAnExchangeIsMadeAndMadeAgain(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exchange, w.own.ExchangeType = w.out+"-exchange", "fanout"
	bind := func() {
		w.channel(func(ch *amqp.Channel) {
			_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
			require.NoError(t, err)
			w.eventually(func() bool { return ch.QueueBind(w.out, "", w.own.Exchange, false, nil) == nil }, "there is no exchange")
		})
	}
	r := w.start()
	w.produce(0, 100, 2)
	w.held("NO_ROUTE")
	bind()
	w.settled(100)
	w.channel(func(ch *amqp.Channel) { require.NoError(t, ch.ExchangeDelete(w.own.Exchange, false, false)) })
	w.produce(100, 2000, 2)
	w.held("NO_ROUTE")
	bind()
	w.settled(2000)
	r.stop()
	w.requireOrder(w.arrived(w.out), 2000, 2)
	require.Equal(t, int64(1), w.destination.Meter.Recreated.Load())
	require.Zero(t, w.destination.Meter.Reconnects.Load())
}

func TestAMissingExchangeThatIsNotToBeMadeHolds(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exchange, w.own.Create = w.out+"-exchange", false
	r := w.start()
	w.produce(0, 100, 2)
	w.held("create: true")
	r.kill()
}

func TestAUserWithoutTheRightToWriteHolds(t *testing.T) {
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	b.Ctl(t, "add_user", "reader", "secret")
	b.Ctl(t, "set_permissions", "reader", "", "", ".*")
	w := newWorld(t, b.URL())
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
		require.NoError(t, err)
	})
	w.config = func(c *rabbitmq.Config) { c.Username, c.Password = "reader", "secret" }
	r := w.start()
	w.produce(0, 1000, 2)
	w.held("right to write")
	b.Ctl(t, "set_permissions", "reader", "", ".*", ".*")
	w.settled(1000)
	r.stop()
	require.Zero(t, w.requireOrder(w.arrived(w.out), 1000, 2))
}

func TestOnlyMessagesThatAreTooLargeAreRefused(t *testing.T) {
	t.Parallel()
	b := brokers.RabbitMQOwn(t, "max_message_size = 100000")
	for _, lanes := range []int{1, 5} {
		t.Run(fmt.Sprintf("%d lanes", lanes), func(t *testing.T) {
			w := newWorld(t, b.URL())
			const n = 2000
			for i := range n {
				size := 100 + 7*(i%100)
				if i%500 == 321 {
					size = 100001 + i
				}
				payload := strconv.Itoa(i) + " " + strings.Repeat("x", size)
				w.site.Produce(memoryTopic, i%lanes, &record.Record{Value: []byte(payload)})
			}
			r := w.start()
			w.settled(n)
			r.stop()
			require.Len(t, r.refused, 4)
			next, seen := make([]int, lanes), map[string]bool{}
			for i := range next {
				next[i] = i
			}
			got := w.arrived(w.out)
			for _, p := range got {
				number, _, _ := strings.Cut(p, " ")
				if seen[number] {
					continue
				}
				seen[number] = true
				i, err := strconv.Atoi(number)
				require.NoError(t, err)
				if next[i%lanes]%500 == 321 {
					next[i%lanes] += lanes
				}
				require.Equal(t, next[i%lanes], i, "out of order")
				next[i%lanes] += lanes
			}
			require.Len(t, seen, n-4, "messages are missing")
			require.LessOrEqual(t, len(got)-len(seen), w.window, "came twice: only the first time are there neighbours")
			require.Zero(t, w.destination.Meter.Reconnects.Load())
		})
	}
}

func TestHeadersOverAFrameAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := brokers.RabbitMQOwn(t, "frame_max = 8192")
	w := newWorld(t, b.URL())
	// What fits exactly, and one byte more: the header's name, its length and type and that of the value, the flags, and what toPublishing adds.
	fits := sizeThatFits(t, w, 8192)
	for i, size := range []int{10, fits, fits + 1, 20000, 10} {
		w.site.Produce(memoryTopic, 0, &record.Record{
			ID: "id", Value: []byte(strconv.Itoa(i)), Headers: []record.Header{{Key: "large", Value: []byte(strings.Repeat("h", size))}},
		})
	}
	r := w.start()
	w.settled(5)
	r.stop()
	require.Equal(t, []string{"0", "1", "4"}, w.arrived(w.out))
	require.Len(t, r.refused, 2)
	require.Zero(t, w.destination.Meter.Reconnects.Load()+w.destination.Meter.Failed.Load())
}

// sizeThatFits finds the longest header that fits a frame by our own count.
func sizeThatFits(t *testing.T, _ *world, frame int64) int {
	t.Helper()
	size := 0
	for {
		p, err := rabbitmq.ToPublishing(&record.Record{ID: "id", Value: []byte("1"), Headers: []record.Header{{Key: "large", Value: make([]byte, size+1)}}})
		require.NoError(t, err)
		if n, err := rabbitmq.HeaderSize(&p); err != nil || n > frame {
			return size
		}
		size++
	}
}

func TestRefusedMessagesSayWhy(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.Exchange = "amq.topic"
	template, err := record.ParseTemplate("{header.key}")
	require.NoError(t, err)
	w.own.RoutingKey = &template
	p := w.publisher()
	long := &record.Record{Headers: []record.Header{{Key: "key", Value: make([]byte, 256)}}}
	err = p.Publish("", long.Message(t.Context()))
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err))
	require.ErrorContains(t, err, "routing key of 256 bytes")
}
