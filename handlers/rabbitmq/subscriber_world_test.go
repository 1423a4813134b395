package rabbitmq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
)

// well is a route from a RabbitMQ, with a queue of its own there, to memory, and what a test wants to change of it.
type well struct {
	world       // For what it can do at the broker.
	in          string
	own         rabbitmq.SourceConfig
	plain       bool // The subscriber knows no lanes.
	source      handlers.Source
	destination *memory.Site
	health      *handlers.Health // Of the destination.
}

const wellTopic = "out"

func newWell(t testing.TB, url string) *well {
	t.Helper()
	w := &well{world: world{TB: t, url: url, store: memory.New()}, in: fmt.Sprintf("in-%08x", rand.Uint32()), health: handlers.NewHealth(nil)}
	_, w.own, _ = rabbitmq.DefaultConfig()
	w.destination = w.store.Site("there")
	w.source = handlers.Source{
		Route: "test", DataCenter: "here", Topic: w.in, Group: group, Window: 1000, Bytes: 64 << 20,
		Backoff: lane.Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		Meter:   &handlers.Meter{}, Health: handlers.NewHealth(nil), Destination: w.health,
	}
	w.health.Up()
	return w
}

// declare makes the queue, classic unless arguments say otherwise.
func (w *well) declare(arguments amqp.Table) {
	w.Helper()
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(w.in, true, false, false, false, arguments)
		require.NoError(w, err)
	})
}

// produce publishes messages with the numbers from first up to, not including, end, and waits until they are confirmed.
func (w *well) produce(first, end int) { w.Helper(); w.produceSized(first, end, 0) }

// produceSized fills the bodies up to size.
func (w *well) produceSized(first, end, size int) {
	w.Helper()
	w.channel(func(ch *amqp.Channel) {
		require.NoError(w, ch.Confirm(false))
		confirms := ch.NotifyPublish(make(chan amqp.Confirmation, end-first))
		for n := first; n < end; n++ {
			body := []byte(strconv.Itoa(n))
			for len(body) < size {
				body = append(body, ' ')
			}
			require.NoError(w, ch.PublishWithContext(context.Background(), "", w.in, true, false, amqp.Publishing{
				DeliveryMode: amqp.Persistent, Body: body,
			}))
		}
		deadline := time.After(patience)
		for range end - first {
			select {
			case c := <-confirms:
				require.True(w, c.Ack)
			case <-deadline:
				require.FailNow(w, "the messages of the test are not confirmed")
			}
		}
	})
}

func (w *well) open() handlers.Conn { w.Helper(); return open(w, w.url, w.config) }

// subscriber makes the source's subscriber. At the end of the test it is given up if it is still open.
func (w *well) subscriber() message.Subscriber {
	w.Helper()
	conn := w.open()
	s, err := conn.Subscriber(w.source, w.own)
	require.NoError(w, err)
	w.Cleanup(func() {
		abort(s)
		_ = s.Close()
		_ = conn.Close()
	})
	return s
}

func (w *well) subscribe(s message.Subscriber) <-chan *message.Message {
	w.Helper()
	messages, err := s.Subscribe(context.Background(), w.in)
	require.NoError(w, err)
	return messages
}

// flow is a route that runs.
type flow struct {
	well       *well
	subscriber message.Subscriber
	publisher  message.Publisher
	running    sync.WaitGroup
}

func (w *well) flow() *flow {
	w.Helper()
	dc, err := w.store.Broker().DataCenter(config.Raw{})
	require.NoError(w, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: "there"})
	require.NoError(w, err)
	_, _, options := memory.DefaultConfig()
	d := handlers.Destination{Route: "test", DataCenter: "there", Topic: wellTopic, Meter: &handlers.Meter{}, Health: w.health}
	p, err := conn.Publisher(d, options)
	require.NoError(w, err)
	f := &flow{well: w, subscriber: w.subscriber(), publisher: p}
	w.Cleanup(func() { _ = p.Close() })
	relay := handlers.NewRelay(d, p, !w.plain)
	messages := w.subscribe(f.subscriber)
	f.running.Go(func() {
		for msg := range messages {
			f.running.Go(func() {
				if relay.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			})
		}
	})
	return f
}

// stop stops the route cleanly, and tells how long that took.
func (f *flow) stop() time.Duration {
	f.well.Helper()
	began := time.Now()
	f.well.within("the stop", func() {
		require.NoError(f.well, f.subscriber.Close())
		f.running.Wait()
		require.NoError(f.well, f.publisher.Close())
	})
	return time.Since(began)
}

// kill gives the route up, and tells how long that took.
func (f *flow) kill() time.Duration {
	f.well.Helper()
	began := time.Now()
	f.well.within("the end", func() {
		abort(f.subscriber)
		require.NoError(f.well, f.publisher.Close())
		_ = f.subscriber.Close()
		f.running.Wait()
	})
	return time.Since(began)
}

func (w *well) committed() int { return int(w.source.Meter.Committed.Load()) }

// settled waits until so many messages are acked, and the queue is empty.
func (w *well) settled(n int) {
	w.Helper()
	w.eventually(func() bool { return w.committed() >= n }, "not everything was acked")
}

// isUp waits until the source is up, or down, as is asked for, and gives the error.
func (w *well) isUp(want bool) error {
	w.Helper()
	w.eventually(func() bool {
		up, _, _ := w.source.Health.State()
		return up == want && w.source.Health.Known()
	}, fmt.Sprintf("the source does not become up = %v", want))
	_, _, err := w.source.Health.State()
	return err
}

// requireArrived demands that the numbers up to n arrived, first arrivals in order, with at most so many duplicates.
func (w *well) requireArrived(n, duplicates int) {
	w.Helper()
	var all []string
	for _, r := range w.destination.Messages(wellTopic) {
		all = append(all, string(trimmed(r.Value)))
	}
	require.LessOrEqual(w, w.requireOrder(all, n, 1), duplicates, "duplicates")
}

func trimmed(body []byte) []byte {
	for i, b := range body {
		if b == ' ' {
			return body[:i]
		}
	}
	return body
}

// left tells how many messages are in the queue once nobody consumes it.
func (w *well) left() int {
	w.Helper()
	left := -1
	w.eventually(func() bool {
		w.channel(func(ch *amqp.Channel) {
			q, err := ch.QueueDeclarePassive(w.in, true, false, false, false, nil)
			require.NoError(w, err)
			left = q.Messages
			if q.Consumers > 0 {
				left = -1
			}
		})
		return left >= 0
	}, "somebody consumes the queue")
	return left
}

// again is the same route in another instance.
func (w *well) again() *well {
	other := *w
	other.source.Meter, other.source.Health = &handlers.Meter{}, handlers.NewHealth(nil)
	return &other
}

// send publishes a message to the exchange for each key, which is also its body.
func (w *well) send(keys ...string) {
	w.Helper()
	w.channel(func(ch *amqp.Channel) {
		require.NoError(w, ch.Confirm(false))
		for _, key := range keys {
			c, err := ch.PublishWithDeferredConfirm(w.own.Exchange, key, false, false, amqp.Publishing{Body: []byte(key)})
			require.NoError(w, err)
			require.True(w, c.Wait())
		}
	})
}

// stays fails the test when the source's health changes within a while.
func (w *well) stays(want bool) {
	w.Helper()
	require.Never(w, func() bool { up, _, _ := w.source.Health.State(); return up != want }, 3*time.Second, 10*time.Millisecond)
}

func (w *well) receive(messages <-chan *message.Message) *message.Message {
	w.Helper()
	select {
	case msg, ok := <-messages:
		require.True(w, ok, "the subscription ended")
		return msg
	case <-time.After(patience):
		require.FailNow(w, "no message comes")
		return nil
	}
}

// silent fails the test when a message comes within a while.
func (w *well) silent(messages <-chan *message.Message) {
	w.Helper()
	select {
	case msg := <-messages:
		require.FailNow(w, "a message came that should not", "%s", msg.Payload)
	case <-time.After(200 * time.Millisecond):
	}
}

// last waits until the last of n messages has arrived, and is acked.
func (w *well) last(n int) {
	w.Helper()
	w.eventually(func() bool {
		all := w.destination.Messages(wellTopic)
		return w.committed() >= n && string(trimmed(all[len(all)-1].Value)) == strconv.Itoa(n-1)
	}, "not everything arrived")
}

// hold keeps the destination from confirming anything until release is called.
func (w *well) hold() (release func()) {
	gate := make(chan struct{})
	w.destination.OnPublish(func(string, *record.Record, int) memory.Verdict { return memory.Delay(gate) })
	return sync.OnceFunc(func() {
		w.destination.OnPublish(nil)
		close(gate)
	})
}
