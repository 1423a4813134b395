package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/middleware"
)

// lot is a poison queue.
type lot struct {
	*testing.T
	url     string
	conn    handlers.Conn
	options handlers.Options
	queue   string
	log     bytes.Buffer
}

func newLot(t *testing.T, url string) *lot {
	t.Helper()
	l := &lot{T: t, url: url, conn: open(t, url, nil), queue: fmt.Sprintf("dead-%08x", rand.Uint32())}
	dc, err := handlers.NewBroker(func() (rabbitmq.Config, rabbitmq.SourceConfig, rabbitmq.DestinationConfig) {
		c, s, d := rabbitmq.DefaultConfig()
		c.URL = []config.URL{parse(t, url)}
		return c, s, d
	}, rabbitmq.Open).DataCenter(config.Raw{})
	require.NoError(t, err)
	l.options, err = dc.PoisonOptions(config.Destination{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.conn.Close() })
	return l
}

func (l *lot) destination() handlers.Destination {
	return handlers.Destination{Route: "test", DataCenter: "there", Topic: l.queue, Logger: slog.New(slog.NewTextHandler(&l.log, nil))}
}

// directly does something at the RabbitMQ itself.
func (l *lot) directly(do func(*amqp.Channel)) {
	l.Helper()
	conn, err := amqp.Dial(l.url)
	require.NoError(l, err)
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	require.NoError(l, err)
	do(ch)
}

// waits waits until n messages are in the queue that nobody holds. RabbitMQ may tell of them a little late.
func (l *lot) waits(n int) {
	l.Helper()
	require.Eventually(l, func() (right bool) {
		l.directly(func(ch *amqp.Channel) {
			q, err := ch.QueueDeclarePassive(l.queue, true, false, false, false, nil)
			right = err == nil && q.Messages == n
		})
		return right
	}, patience, 20*time.Millisecond, "there are not %d messages", n)
}

// park puts records into the queue as the chain does.
func (l *lot) park(records ...*record.Record) {
	l.Helper()
	p, err := l.conn.Publisher(l.destination(), l.options)
	require.NoError(l, err)
	messages := make([]*message.Message, len(records))
	for i, r := range records {
		messages[i] = r.Message(context.Background())
	}
	require.NoError(l, p.Publish(l.queue, messages...))
	require.NoError(l, p.Close())
}

// parked makes parked messages with the numbers from first up to, not including, end.
func parked(route string, first, end int) []*record.Record {
	var all []*record.Record
	for n := first; n < end; n++ {
		all = append(all, middleware.Parked(&record.Record{
			ID: "id-" + strconv.Itoa(n), Key: []byte("k"), Value: []byte(strconv.Itoa(n)),
			Source: record.Source{DataCenter: "here", Topic: "orders", Position: strconv.Itoa(n)},
		}, route, errors.New("no")))
	}
	return all
}

func (l *lot) browse() handlers.Browsing {
	l.Helper()
	b, err := l.conn.Browse(l.Context(), l.destination(), l.options)
	require.NoError(l, err)
	l.Cleanup(func() { _ = b.Close() })
	return b
}

// all gives what a look gives.
func (l *lot) all(b handlers.Browsing) []*record.Record {
	l.Helper()
	var all []*record.Record
	for {
		page, err := b.Next(l.Context(), 256)
		require.NoError(l, err)
		require.LessOrEqual(l, len(page), 256)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// list gives the numbers in the queue of a route.
func (l *lot) list(route string) []int {
	l.Helper()
	b := l.browse()
	all := numbersOf(l.T, l.all(b), route)
	require.NoError(l, b.Close())
	return all
}

func numbersOf(t *testing.T, records []*record.Record, route string) []int {
	t.Helper()
	var all []int
	for _, r := range records {
		original, why, ok := middleware.Unparked(r)
		require.True(t, ok)
		if why[middleware.PoisonRoute] != route {
			continue
		}
		n, err := strconv.Atoi(string(original.Value))
		require.NoError(t, err)
		all = append(all, n)
	}
	return all
}

// choose gives those of a route for whose numbers wanted is true.
func (l *lot) choose(records []*record.Record, route string, wanted func(int) bool) []*record.Record {
	l.Helper()
	var chosen []*record.Record
	for _, r := range records {
		n := numbersOf(l.T, []*record.Record{r}, route)
		if len(n) == 1 && wanted(n[0]) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

func interval(first, end int, wanted func(int) bool) []int {
	var all []int
	for n := first; n < end; n++ {
		if wanted(n) {
			all = append(all, n)
		}
	}
	return all
}

func every(int) bool  { return true }
func odd(n int) bool  { return n%2 == 1 }
func even(n int) bool { return n%2 == 0 }

func TestAPoisonQueueIsClassicAndListedWithoutBeingConsumed(t *testing.T) {
	const n = 5000
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.park(parked("one", 0, n)...)
	require.Equal(t, interval(0, n, every), l.list("one"))
	l.waits(n)
	require.Equal(t, interval(0, n, every), l.list("one"))
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(l.queue, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
		require.NoError(t, err)
	})
	require.Empty(t, l.log.String())
}

func TestOnlyWhatIsRemovedIsGoneFromAQueueThatTwoRoutesShare(t *testing.T) {
	const n = 500
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.park(parked("one", 0, n)...)
	l.park(parked("two", 0, n)...)
	b := l.browse()
	chosen := l.choose(l.all(b), "one", odd)
	require.NoError(t, b.Remove(t.Context(), chosen))
	require.NoError(t, b.Remove(t.Context(), chosen), "what is gone is gone")
	require.NoError(t, b.Remove(t.Context(), nil))
	require.NoError(t, b.Close())
	l.waits(3 * n / 2)
	require.Equal(t, interval(0, n, even), l.list("one"))
	require.Equal(t, interval(0, n, every), l.list("two"))
	other := l.browse()
	require.ErrorContains(t, other.Remove(t.Context(), chosen[:1]), "this look did not give it")
}

func TestWhatIsReadFromAPoisonQueueIsWhole(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	at := time.Unix(1_700_000_000, 123_456_789)
	originals := []*record.Record{
		{ID: "full", Key: []byte{0, 255}, Value: []byte{1, 0, 2}, Time: at, Headers: []record.Header{
			{Key: "z", Value: []byte("1")},
			{Key: "a"},
			{Key: "z", Value: []byte{}},
			{Key: "n", Value: []byte("7"), Type: record.Int32},
			{Key: "x-delivery-count", Value: []byte("3"), Type: record.Int64},
			{Key: "mqferry_poison_route", Value: []byte("not ours")},
		}},
		{ID: "null", Key: []byte("k"), Value: nil, Time: at},
		{ID: "empty", Key: []byte{}, Value: []byte{}, Time: at},
		{ID: "plain", Value: []byte("v"), Time: at},
	}
	for i, r := range originals {
		r.Source = record.Source{DataCenter: "here", Topic: "orders", Lane: "3", Position: strconv.Itoa(i)}
		l.park(middleware.Parked(r, "one", errors.New("no")))
	}
	first := l.browse()
	require.Len(t, l.all(first), len(originals))
	require.NoError(t, first.Close())
	got := l.all(l.browse()) // Now with the mark of redelivery.
	require.Len(t, got, len(originals))
	for i, r := range got {
		require.Empty(t, r.Source.Position)
		original, why, ok := middleware.Unparked(r)
		require.True(t, ok)
		require.Equal(t, "no", why[middleware.PoisonReason])
		original.Time = original.Time.Local()
		require.Equal(t, originals[i], original)
	}
}

func TestNothingIsLostWhenRabbitMQIsKilledBeforeARemoval(t *testing.T) {
	lengthy(t)
	t.Parallel()
	const n = 1000
	server := brokers.RabbitMQOwn(t)
	l := newLot(t, server.URL())
	l.park(parked("one", 0, n)...)
	server.Stop(t) // RabbitMQ 3.10 forgets a queue that was made a moment before a kill.
	server.Start(t)
	b := l.browse()
	chosen := l.choose(l.all(b), "one", odd)
	half := l.browse()
	server.Kill(t)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(b.Remove(t.Context(), chosen)))
	require.NoError(t, b.Close())
	require.NoError(t, half.Close())
	_, err := l.conn.Browse(t.Context(), l.destination(), l.options)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	server.Start(t)
	require.Equal(t, interval(0, n, every), l.list("one"))
	b = l.browse()
	require.NoError(t, b.Remove(t.Context(), l.choose(l.all(b), "one", odd)))
	require.NoError(t, b.Close())
	server.Stop(t)
	server.Start(t)
	require.Equal(t, interval(0, n, even), l.list("one"))
}

func TestALookThatIsCutOffGivesEverythingBackInOrder(t *testing.T) {
	t.Parallel()
	const n = 500
	server := brokers.RabbitMQOwn(t)
	link := server.Link(t)
	l := newLot(t, server.URL())
	l.park(parked("one", 0, n)...)
	through := newLot(t, server.URLAt(link.Address()))
	through.queue = l.queue
	b := through.browse()
	page, err := b.Next(t.Context(), n/2)
	require.NoError(t, err)
	require.NoError(t, b.Remove(t.Context(), through.choose(page, "one", odd)))
	l.waits(n / 2) // What is looked at is held.
	link.Cut()
	_, err = b.Next(t.Context(), n/2)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	l.waits(n - n/4)
	require.Equal(t, interval(0, n, func(i int) bool { return i >= n/2 || even(i) }), l.list("one"))
}

func TestMessagesThatAreParkedDuringALookStay(t *testing.T) {
	const n = 1000
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.park(parked("one", 0, n)...)
	var parking sync.WaitGroup
	parking.Go(func() {
		for i := 0; i < n; i += 100 {
			l.park(parked("two", i, i+100)...)
		}
	})
	b := l.browse()
	for {
		page, err := b.Next(t.Context(), 100)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.NoError(t, b.Remove(t.Context(), l.choose(page, "one", every)))
	}
	parking.Wait()
	require.NoError(t, b.Close())
	require.Empty(t, l.list("one"))
	require.Equal(t, interval(0, n, every), l.list("two"))
}

func TestALookEndsAfterAsManyMessagesAsThereWereWhenItBegan(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.park(parked("one", 0, 10)...)
	b := l.browse()
	l.park(parked("one", 10, 20)...)
	require.Equal(t, interval(0, 10, every), numbersOf(t, l.all(b), "one"))
}

func TestTwoLooksAtOnceSeeEachMessageOnceAndSaySo(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.park(parked("one", 0, 20)...)
	first := l.browse()
	page, err := first.Next(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, interval(0, 10, every), numbersOf(t, page, "one"))
	second := l.browse()
	require.Equal(t, interval(10, 20, every), numbersOf(t, l.all(second), "one"))
	require.Empty(t, l.log.String())
	require.Empty(t, l.all(first))
	require.Contains(t, l.log.String(), "fewer messages than it had")
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.Equal(t, interval(0, 20, every), l.list("one"))
	l.directly(func(ch *amqp.Channel) {
		require.NoError(t, ch.Qos(5, 0, false))
		_, err := ch.Consume(l.queue, "", false, true, false, false, nil)
		require.NoError(t, err)
		l.waits(15)
		require.Equal(t, interval(5, 20, every), l.list("one"))
		require.Contains(t, l.log.String(), "somebody consumes from the queue")
	})
}

func TestAQuorumQueueIsRefusedBeforeALookCounts(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(l.queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1})
		require.NoError(t, err)
	})
	l.park(parked("one", 0, 10)...)
	for range 5 {
		_, err := l.conn.Browse(t.Context(), l.destination(), l.options)
		require.ErrorContains(t, err, fmt.Sprintf("queue %q is a quorum queue", l.queue))
		require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
	}
	l.directly(func(ch *amqp.Channel) {
		for range 10 {
			d, ok, err := ch.Get(l.queue, true)
			require.NoError(t, err)
			require.True(t, ok)
			require.False(t, d.Redelivered)
		}
	})
}

func TestAStreamAndAnExchangeAreRefused(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(l.queue, true, false, false, false, amqp.Table{"x-queue-type": "stream"})
		require.NoError(t, err)
	})
	_, err := l.conn.Browse(t.Context(), l.destination(), l.options)
	require.ErrorContains(t, err, "is a stream")
	options := l.options.(rabbitmq.DestinationConfig)
	options.Exchange = "dead"
	_, err = l.conn.Browse(t.Context(), l.destination(), options)
	require.ErrorContains(t, err, "an exchange keeps nothing")
}

func TestAPoisonQueueThatIsMissingIsEmptyAndIsNotMade(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	require.Empty(t, l.list("one"))
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclarePassive(l.queue, true, false, false, false, nil)
		require.ErrorContains(t, err, "NOT_FOUND")
	})
}

func TestALookIsGivenUpWithItsContext(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.park(parked("one", 0, 10)...)
	ctx, cancel := context.WithCancel(t.Context())
	b, err := l.conn.Browse(ctx, l.destination(), l.options)
	require.NoError(t, err)
	page, err := b.Next(ctx, 5)
	require.NoError(t, err)
	cancel()
	_, err = b.Next(ctx, 5)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Remove(t.Context(), page), "what was given can still be removed")
	require.NoError(t, b.Close())
	require.Equal(t, interval(5, 10, every), l.list("one"))
}
