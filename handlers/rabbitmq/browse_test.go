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

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/middleware"
)

// lot is a poison queue.
type lot struct {
	brokertest.Lot
	url string
	log bytes.Buffer
}

func newLot(t *testing.T, url string) *lot {
	t.Helper()
	l := &lot{Lot: brokertest.Lot{T: t, Conn: open(t, url, nil)}, url: url}
	l.Destination = handlers.Destination{
		Route: "test", DataCenter: "there", Topic: fmt.Sprintf("dead-%08x", rand.Uint32()), Logger: slog.New(slog.NewTextHandler(&l.log, nil)),
	}
	dc, err := handlers.NewBroker(func() (rabbitmq.Config, rabbitmq.SourceConfig, rabbitmq.DestinationConfig) {
		c, s, d := rabbitmq.DefaultConfig()
		c.URL = []config.URL{parse(t, url)}
		return c, s, d
	}, rabbitmq.Open).DataCenter(config.Raw{})
	require.NoError(t, err)
	l.Options, err = dc.PoisonOptions(config.Destination{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Conn.Close() })
	return l
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
			q, err := ch.QueueDeclarePassive(l.Destination.Topic, true, false, false, false, nil)
			right = err == nil && q.Messages == n
		})
		return right
	}, patience, 20*time.Millisecond, "there are not %d messages", n)
}

func parked(route string, first, end int) []*record.Record {
	return brokertest.Parked(record.Source{DataCenter: "here", Topic: "orders"}, route, first, end)
}

func TestAPoisonQueueIsClassicAndListedWithoutBeingConsumed(t *testing.T) {
	const n = 5000
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.Park(parked("one", 0, n)...)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	l.waits(n)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(l.Destination.Topic, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
		require.NoError(t, err)
	})
	require.Empty(t, l.log.String())
}

func TestOnlyWhatIsRemovedIsGoneFromAQueueThatTwoRoutesShare(t *testing.T) {
	const n = 500
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.Park(parked("one", 0, n)...)
	l.Park(parked("two", 0, n)...)
	b := l.Browse()
	chosen := l.Choose(l.All(b), "one", brokertest.Odd)
	require.NoError(t, b.Remove(t.Context(), chosen))
	require.NoError(t, b.Remove(t.Context(), chosen), "what is gone is gone")
	require.NoError(t, b.Remove(t.Context(), nil))
	require.NoError(t, b.Close())
	l.waits(3 * n / 2)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("two"))
	other := l.Browse()
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
		l.Park(middleware.Parked(r, "one", errors.New("no")))
	}
	first := l.Browse()
	require.Len(t, l.All(first), len(originals))
	require.NoError(t, first.Close())
	got := l.All(l.Browse()) // Now with the mark of redelivery.
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
	l.Park(parked("one", 0, n)...)
	server.Stop(t) // RabbitMQ 3.10 forgets a queue that was made a moment before a kill.
	server.Start(t)
	b := l.Browse()
	chosen := l.Choose(l.All(b), "one", brokertest.Odd)
	half := l.Browse()
	server.Kill(t)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(b.Remove(t.Context(), chosen)))
	require.NoError(t, b.Close())
	require.NoError(t, half.Close())
	_, err := l.Conn.Browse(t.Context(), l.Destination, l.Options)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	server.Start(t)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	b = l.Browse()
	require.NoError(t, b.Remove(t.Context(), l.Choose(l.All(b), "one", brokertest.Odd)))
	require.NoError(t, b.Close())
	server.Stop(t)
	server.Start(t)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
}

func TestALookThatIsCutOffGivesEverythingBackInOrder(t *testing.T) {
	t.Parallel()
	const n = 500
	server := brokers.RabbitMQOwn(t)
	link := server.Link(t)
	l := newLot(t, server.URL())
	l.Park(parked("one", 0, n)...)
	through := newLot(t, server.URLAt(link.Address()))
	through.Destination.Topic = l.Destination.Topic
	b := through.Browse()
	page, err := b.Next(t.Context(), n/2)
	require.NoError(t, err)
	require.NoError(t, b.Remove(t.Context(), through.Choose(page, "one", brokertest.Odd)))
	l.waits(n / 2) // What is looked at is held.
	link.Cut()
	_, err = b.Next(t.Context(), n/2)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	l.waits(n - n/4)
	require.Equal(t, brokertest.Interval(0, n, func(i int) bool { return i >= n/2 || brokertest.Even(i) }), l.List("one"))
}

func TestMessagesThatAreParkedDuringALookStay(t *testing.T) {
	const n = 1000
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.Park(parked("one", 0, n)...)
	var parking sync.WaitGroup
	parking.Go(func() {
		for i := 0; i < n; i += 100 {
			l.Park(parked("two", i, i+100)...)
		}
	})
	b := l.Browse()
	for {
		page, err := b.Next(t.Context(), 100)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.NoError(t, b.Remove(t.Context(), l.Choose(page, "one", brokertest.Every)))
	}
	parking.Wait()
	require.NoError(t, b.Close())
	require.Empty(t, l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("two"))
}

func TestALookEndsAfterAsManyMessagesAsThereWereWhenItBegan(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.Park(parked("one", 0, 10)...)
	b := l.Browse()
	l.Park(parked("one", 10, 20)...)
	require.Equal(t, brokertest.Interval(0, 10, brokertest.Every), brokertest.Numbers(t, l.All(b), "one"))
}

func TestTwoLooksAtOnceSeeEachMessageOnceAndSaySo(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.Park(parked("one", 0, 20)...)
	first := l.Browse()
	page, err := first.Next(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, brokertest.Interval(0, 10, brokertest.Every), brokertest.Numbers(t, page, "one"))
	second := l.Browse()
	require.Equal(t, brokertest.Interval(10, 20, brokertest.Every), brokertest.Numbers(t, l.All(second), "one"))
	require.Empty(t, l.log.String())
	require.Empty(t, l.All(first))
	require.Contains(t, l.log.String(), "fewer messages than it had")
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.Equal(t, brokertest.Interval(0, 20, brokertest.Every), l.List("one"))
	l.directly(func(ch *amqp.Channel) {
		require.NoError(t, ch.Qos(5, 0, false))
		_, err := ch.Consume(l.Destination.Topic, "", false, true, false, false, nil)
		require.NoError(t, err)
		l.waits(15)
		require.Equal(t, brokertest.Interval(5, 20, brokertest.Every), l.List("one"))
		require.Contains(t, l.log.String(), "somebody consumes from the queue")
	})
}

func TestAQuorumQueueIsRefusedBeforeALookCounts(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(l.Destination.Topic, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1})
		require.NoError(t, err)
	})
	l.Park(parked("one", 0, 10)...)
	for range 5 {
		_, err := l.Conn.Browse(t.Context(), l.Destination, l.Options)
		require.ErrorContains(t, err, fmt.Sprintf("queue %q is a quorum queue", l.Destination.Topic))
		require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
	}
	l.directly(func(ch *amqp.Channel) {
		for range 10 {
			d, ok, err := ch.Get(l.Destination.Topic, true)
			require.NoError(t, err)
			require.True(t, ok)
			require.False(t, d.Redelivered)
		}
	})
}

func TestAStreamAndAnExchangeAreRefused(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(l.Destination.Topic, true, false, false, false, amqp.Table{"x-queue-type": "stream"})
		require.NoError(t, err)
	})
	_, err := l.Conn.Browse(t.Context(), l.Destination, l.Options)
	require.ErrorContains(t, err, "is a stream")
	options := l.Options.(rabbitmq.DestinationConfig)
	options.Exchange = "dead"
	_, err = l.Conn.Browse(t.Context(), l.Destination, options)
	require.ErrorContains(t, err, "an exchange keeps nothing")
}

func TestAPoisonQueueThatIsMissingIsEmptyAndIsNotMade(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	require.Empty(t, l.List("one"))
	l.directly(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclarePassive(l.Destination.Topic, true, false, false, false, nil)
		require.ErrorContains(t, err, "NOT_FOUND")
	})
}

func TestALookIsGivenUpWithItsContext(t *testing.T) {
	l := newLot(t, brokers.RabbitMQ(t, "a").URL())
	l.Park(parked("one", 0, 10)...)
	ctx, cancel := context.WithCancel(t.Context())
	b, err := l.Conn.Browse(ctx, l.Destination, l.Options)
	require.NoError(t, err)
	page, err := b.Next(ctx, 5)
	require.NoError(t, err)
	cancel()
	_, err = b.Next(ctx, 5)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Remove(t.Context(), page), "what was given can still be removed")
	require.NoError(t, b.Close())
	require.Equal(t, brokertest.Interval(5, 10, brokertest.Every), l.List("one"))
}
