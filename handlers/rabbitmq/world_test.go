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

const (
	patience = 60 * time.Second
	group    = "mqferry-test"
)

// parse makes the config's URL.
func parse(t testing.TB, text string) config.URL {
	t.Helper()
	var u config.URL
	require.NoError(t, u.UnmarshalText([]byte(text)))
	return u
}

// open connects as the router does, with the types of the options erased. Change, if there is one, changes the options of the data center.
func open(t testing.TB, url string, change func(*rabbitmq.Config)) handlers.Conn {
	t.Helper()
	return openAs(t, url, "test", change)
}

// openAs is open for one of several instances.
func openAs(t testing.TB, url, instance string, change func(*rabbitmq.Config)) handlers.Conn {
	t.Helper()
	broker := handlers.NewBroker(
		func() (rabbitmq.Config, rabbitmq.SourceConfig, rabbitmq.DestinationConfig) {
			c, s, d := rabbitmq.DefaultConfig()
			c.URL = []config.URL{parse(t, url)}
			if change != nil {
				change(&c)
			}
			return c, s, d
		},
		rabbitmq.Open)
	dc, err := broker.DataCenter(config.Raw{})
	require.NoError(t, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: "there", Instance: instance})
	require.NoError(t, err)
	return conn
}

// world is a route from memory to a RabbitMQ, with a queue of its own there, and what a test wants to change of it.
type world struct {
	testing.TB
	url         string
	out         string // The queue.
	window      int
	config      func(*rabbitmq.Config)
	store       *memory.Store
	site        *memory.Site
	meter       *handlers.Meter // Of the source.
	destination handlers.Destination
	own         rabbitmq.DestinationConfig
}

const memoryTopic = "in"

func newWorld(t testing.TB, url string) *world {
	t.Helper()
	w := &world{TB: t, url: url, window: 1000, store: memory.New(), meter: &handlers.Meter{}}
	w.out = fmt.Sprintf("out-%08x", rand.Uint32())
	w.site = w.store.Site("here")
	_, _, w.own = rabbitmq.DefaultConfig()
	w.destination = handlers.Destination{
		Route: "test", DataCenter: "there", Topic: w.out, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
	return w
}

func (w *world) publisher() message.Publisher {
	w.Helper()
	conn := open(w, w.url, w.config)
	p, err := conn.Publisher(w.destination, w.own)
	require.NoError(w, err)
	w.Cleanup(func() {
		_ = p.Close()
		_ = conn.Close()
	})
	return p
}

func (w *world) subscriber() message.Subscriber {
	w.Helper()
	_, options, _ := memory.DefaultConfig()
	dc, err := w.store.Broker().DataCenter(config.Raw{})
	require.NoError(w, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: "here"})
	require.NoError(w, err)
	s, err := conn.Subscriber(handlers.Source{
		Route: "test", DataCenter: "here", Topic: memoryTopic, Group: group, Window: w.window, Bytes: 64 << 20,
		Backoff: lane.Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		Meter:   w.meter, Health: handlers.NewHealth(nil),
	}, options)
	require.NoError(w, err)
	w.Cleanup(func() {
		abort(s)
		_ = s.Close()
	})
	return s
}

func abort(s message.Subscriber) {
	if a, ok := s.(interface{ Abort() }); ok {
		a.Abort()
	}
}

// route is a relay that runs.
type route struct {
	world      *world
	subscriber message.Subscriber
	publisher  message.Publisher
	running    sync.WaitGroup

	mu      sync.Mutex
	refused []*message.Message // Given up, as if parked.
}

// start runs the route. A message that is refused is dropped, and listed.
func (w *world) start() *route {
	w.Helper()
	r := &route{world: w, publisher: w.publisher(), subscriber: w.subscriber()}
	messages, err := r.subscriber.Subscribe(context.Background(), memoryTopic)
	require.NoError(w, err)
	relay := handlers.NewRelay(w.destination, r.publisher, true)
	r.running.Go(func() {
		for msg := range messages {
			r.running.Go(func() { r.handle(relay, msg) })
		}
	})
	return r
}

func (r *route) handle(relay *handlers.Relay, msg *message.Message) {
	err := relay.Handle(msg)
	switch handlers.ClassOf(err) {
	case handlers.ClassRefused, handlers.ClassPermanent:
		r.mu.Lock()
		r.refused = append(r.refused, msg)
		r.mu.Unlock()
		handlers.Ticket(msg).Settle(lane.Parked)
		msg.Ack()
		return
	}
	if err == nil {
		msg.Ack()
	} else {
		msg.Nack()
	}
}

// stop stops the route cleanly.
func (r *route) stop() {
	r.world.Helper()
	r.world.within("the stop", func() {
		require.NoError(r.world, r.subscriber.Close())
		r.running.Wait()
		require.NoError(r.world, r.publisher.Close())
	})
}

// kill ends the route as it is, and fails the test when that takes long.
func (r *route) kill() {
	r.world.Helper()
	began := time.Now()
	r.world.within("the end", func() {
		abort(r.subscriber)
		require.NoError(r.world, r.publisher.Close())
		require.NoError(r.world, r.subscriber.Close())
		r.running.Wait()
	})
	require.Less(r.world, time.Since(began), 5*time.Second, "the end took long")
}

func (w *world) within(what string, do func()) {
	w.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(w, what+" does not end")
	}
}

func (w *world) eventually(reached func() bool, what string) {
	w.Helper()
	require.Eventually(w, reached, patience, 5*time.Millisecond, what)
}

// produce adds records with the numbers from first up to, not including, end, to lanes in turn.
func (w *world) produce(first, end, lanes int) {
	w.Helper()
	for n := first; n < end; n++ {
		w.site.Produce(memoryTopic, n%lanes, &record.Record{Value: []byte(strconv.Itoa(n))})
	}
}

// settled waits until so many messages are acked at the source.
func (w *world) settled(n int) {
	w.Helper()
	w.eventually(func() bool { return int(w.meter.Committed.Load()) >= n }, "not everything was acked")
}

// arrived takes everything out of a queue: the payloads.
func (w *world) arrived(queue string) []string {
	w.Helper()
	var all []string
	w.channel(func(ch *amqp.Channel) {
		for {
			d, ok, err := ch.Get(queue, true)
			require.NoError(w, err)
			if !ok {
				return
			}
			all = append(all, string(d.Body))
		}
	})
	return all
}

// requireOrder demands that every number from 0 up to n arrived, for the first time in the order of its lane.
func (w *world) requireOrder(payloads []string, n, lanes int) (repeats int) {
	w.Helper()
	seen := map[int]bool{}
	next := make([]int, lanes)
	for i := range next {
		next[i] = i
	}
	for _, p := range payloads {
		i, err := strconv.Atoi(p)
		require.NoError(w, err)
		if seen[i] {
			continue
		}
		seen[i] = true
		require.Equal(w, next[i%lanes], i, "out of order")
		next[i%lanes] += lanes
	}
	require.Len(w, seen, n, "messages are missing")
	return len(payloads) - len(seen)
}

// channel does something directly at the RabbitMQ.
func (w *world) channel(do func(*amqp.Channel)) {
	w.Helper()
	conn, err := amqp.Dial(w.url)
	require.NoError(w, err)
	defer func() { require.NoError(w, conn.Close()) }()
	ch, err := conn.Channel()
	require.NoError(w, err)
	do(ch)
}

// count tells how many messages wait in the queue; -1 when it cannot be asked.
func (w *world) count(queue string) int {
	conn, err := amqp.Dial(w.url)
	if err != nil {
		return -1
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return -1
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return -1
	}
	return q.Messages
}

// delete deletes a queue.
func (w *world) delete(queue string) {
	w.Helper()
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDelete(queue, false, false, false)
		require.NoError(w, err)
	})
}
