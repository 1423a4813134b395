package redisstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/middleware"
)

// lot is a poison queue.
type lot struct {
	brokertest.Lot
	client *redis.Client // Directly.
}

func newLot(t *testing.T, address string, changes ...func(*redisstream.Config)) *lot {
	t.Helper()
	l := &lot{Lot: brokertest.Lot{
		T: t, Conn: open(t, address, "test", changes...),
		Destination: handlers.Destination{Route: "test", DataCenter: "here", Topic: fmt.Sprintf("dead-%08x", rand.Uint32())},
	}}
	dc, err := handlers.NewBroker(func() (redisstream.Config, redisstream.SourceConfig, redisstream.DestinationConfig) {
		c, s, d := redisstream.DefaultConfig()
		c.Address = []string{address}
		d.MaxLength = 10
		return c, s, d
	}, redisstream.Open).DataCenter(config.Raw{})
	require.NoError(t, err)
	l.Options, err = dc.PoisonOptions(config.Destination{})
	require.NoError(t, err)
	l.client = redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	t.Cleanup(func() {
		_ = l.client.Del(context.Background(), l.Destination.Topic).Err()
		_ = l.client.Close()
		_ = l.Conn.Close()
	})
	return l
}

func parked(route string, first, end int) []*record.Record {
	return brokertest.Parked(record.Source{DataCenter: "there", Topic: "orders"}, route, first, end)
}

func TestAPoisonStreamIsNotTrimmedAndListedWithoutBeingConsumed(t *testing.T) {
	const n = 5000
	l := newLot(t, brokers.Redis(t, "a").Address())
	l.Park(parked("one", 0, n)...)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	groups, err := l.client.XInfoGroups(t.Context(), l.Destination.Topic).Result()
	require.NoError(t, err)
	require.Empty(t, groups)
}

func TestOnlyWhatIsRemovedIsGoneFromAStreamThatTwoRoutesShare(t *testing.T) {
	const n = 3000
	l := newLot(t, brokers.Redis(t, "a").Address())
	l.Park(parked("one", 0, n)...)
	l.Park(parked("two", 0, n)...)
	b := l.Browse()
	chosen := l.Choose(l.All(b), "one", brokertest.Odd)
	require.NoError(t, b.Remove(t.Context(), chosen))
	require.NoError(t, b.Remove(t.Context(), chosen), "what is gone is gone")
	require.NoError(t, b.Remove(t.Context(), nil))
	require.NoError(t, b.Close())
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("two"))
}

func TestWhatIsReadFromAPoisonStreamIsWhole(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	at := time.Unix(1_700_000_000, 123_456_789)
	originals := []*record.Record{
		{ID: "full", Key: []byte{0, 255}, Value: []byte{1, 0, 2}, Time: at, Headers: []record.Header{
			{Key: "z", Value: []byte("1")},
			{Key: "a"},
			{Key: "z", Value: []byte{}},
			{Key: "n", Value: []byte("7"), Type: record.Int32},
			{Key: "mqferry_poison_route", Value: []byte("not ours")},
		}},
		{ID: "null", Key: []byte("k"), Value: nil, Time: at},
		{ID: "empty", Key: []byte{}, Value: []byte{}, Time: at},
		{ID: "plain", Value: []byte("v"), Time: at},
	}
	for i, r := range originals {
		r.Source = record.Source{DataCenter: "there", Topic: "orders", Lane: "3", Position: strconv.Itoa(i)}
		l.Park(middleware.Parked(r, "one", errors.New("no")))
	}
	got := l.All(l.Browse())
	require.Len(t, got, len(originals))
	for i, r := range got {
		original, why, ok := middleware.Unparked(r)
		require.True(t, ok)
		require.Equal(t, "no", why[middleware.PoisonReason])
		original.Time = original.Time.Local()
		require.Equal(t, originals[i], original)
	}
}

func TestLargeEntriesMakeSmallPages(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	for i := range 40 {
		l.Park(&record.Record{ID: strconv.Itoa(i), Value: make([]byte, 1<<20)})
	}
	b := l.Browse()
	n := 0
	for {
		page, err := b.Next(t.Context(), 256)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.LessOrEqual(t, len(page), 4)
		n += len(page)
	}
	require.Equal(t, 40, n)
}

func TestNothingIsLostWhenRedisIsKilledBeforeARemoval(t *testing.T) {
	const n = 1000
	server := brokers.RedisOwn(t, "--appendfsync", "always")
	l := newLot(t, server.Address())
	l.Park(parked("one", 0, n)...)
	b := l.Browse()
	chosen := l.Choose(l.All(b), "one", brokertest.Odd)
	half := l.Browse()
	first, err := half.Next(t.Context(), 7)
	require.NoError(t, err)
	server.Kill(t)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(b.Remove(t.Context(), chosen)))
	_, err = half.Next(t.Context(), 7)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	_, err = l.Conn.Browse(t.Context(), l.Destination, l.Options)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	server.Start(t)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	// The client repeats an error for up to a second before it dials again.
	require.Eventually(t, func() bool {
		page, err := half.Next(t.Context(), 7)
		first = append(first, page...)
		return err == nil
	}, patience, 10*time.Millisecond)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), brokertest.Numbers(t, append(first, l.All(half)...), "one"), "a look goes on when Redis is back")
	require.Eventually(t, func() bool { return b.Remove(t.Context(), chosen) == nil }, patience, 10*time.Millisecond)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
}

func TestMessagesThatAreParkedDuringALookStay(t *testing.T) {
	const n = 5000
	l := newLot(t, brokers.Redis(t, "a").Address())
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
	require.Empty(t, l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("two"))
}

func TestALookEndsWhereTheStreamEndedWhenItBegan(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	l.Park(parked("one", 0, 10)...)
	b := l.Browse()
	l.Park(parked("one", 10, 20)...)
	require.Equal(t, brokertest.Interval(0, 10, brokertest.Every), brokertest.Numbers(t, l.All(b), "one"))
}

func TestAPoisonStreamThatIsMissingIsEmptyAndIsNotMade(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	require.Empty(t, l.List("one"))
	n, err := l.client.Exists(t.Context(), l.Destination.Topic).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestALookAtSomethingElseThanAStreamIsAClearError(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	require.NoError(t, l.client.Set(t.Context(), l.Destination.Topic, "text", 0).Err())
	_, err := l.Conn.Browse(t.Context(), l.Destination, l.Options)
	require.ErrorContains(t, err, "look through stream here/"+l.Destination.Topic+": WRONGTYPE")
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
}

func TestALookWithoutTheRightToItSaysWhatIsMissing(t *testing.T) {
	server := brokers.RedisOwn(t, "--aclfile", aclFile(t, "user default on nopass ~* &* +@all", "user ferry on >secret ~* &* +xadd +xrevrange +xrange +ping +hello"))
	l := newLot(t, server.Address(), func(c *redisstream.Config) { c.Username, c.Password = "ferry", "secret" })
	l.Park(parked("one", 0, 10)...)
	b := l.Browse()
	err := b.Remove(t.Context(), l.Choose(l.All(b), "one", brokertest.Odd))
	require.ErrorContains(t, err, "it needs ACL SETUSER ferry ~"+l.Destination.Topic+" +xrange +xrevrange +xdel")
	require.Equal(t, brokertest.Interval(0, 10, brokertest.Every), l.List("one"))
}
