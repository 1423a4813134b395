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

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/middleware"
)

// lot is a poison queue.
type lot struct {
	*testing.T
	conn    handlers.Conn
	options handlers.Options
	stream  string
	client  *redis.Client // Directly.
}

func newLot(t *testing.T, address string, changes ...func(*redisstream.Config)) *lot {
	t.Helper()
	l := &lot{T: t, conn: open(t, address, "test", changes...), stream: fmt.Sprintf("dead-%08x", rand.Uint32())}
	dc, err := handlers.NewBroker(func() (redisstream.Config, redisstream.SourceConfig, redisstream.DestinationConfig) {
		c, s, d := redisstream.DefaultConfig()
		c.Address = []string{address}
		d.MaxLength = 10
		return c, s, d
	}, redisstream.Open).DataCenter(config.Raw{})
	require.NoError(t, err)
	l.options, err = dc.PoisonOptions(config.Destination{})
	require.NoError(t, err)
	l.client = redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	t.Cleanup(func() {
		_ = l.client.Del(context.Background(), l.stream).Err()
		_ = l.client.Close()
		_ = l.conn.Close()
	})
	return l
}

func (l *lot) destination() handlers.Destination {
	return handlers.Destination{Route: "test", DataCenter: "here", Topic: l.stream}
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
	require.NoError(l, p.Publish(l.stream, messages...))
	require.NoError(l, p.Close())
}

// parked makes parked messages with the numbers from first up to, not including, end.
func parked(route string, first, end int) []*record.Record {
	var all []*record.Record
	for n := first; n < end; n++ {
		all = append(all, middleware.Parked(&record.Record{
			ID: "id-" + strconv.Itoa(n), Key: []byte("k"), Value: []byte(strconv.Itoa(n)),
			Source: record.Source{DataCenter: "there", Topic: "orders", Position: strconv.Itoa(n)},
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

func TestAPoisonStreamIsNotTrimmedAndListedWithoutBeingConsumed(t *testing.T) {
	const n = 5000
	l := newLot(t, brokers.Redis(t, "a").Address())
	l.park(parked("one", 0, n)...)
	require.Equal(t, interval(0, n, every), l.list("one"))
	require.Equal(t, interval(0, n, every), l.list("one"))
	groups, err := l.client.XInfoGroups(t.Context(), l.stream).Result()
	require.NoError(t, err)
	require.Empty(t, groups)
}

func TestOnlyWhatIsRemovedIsGoneFromAStreamThatTwoRoutesShare(t *testing.T) {
	const n = 3000
	l := newLot(t, brokers.Redis(t, "a").Address())
	l.park(parked("one", 0, n)...)
	l.park(parked("two", 0, n)...)
	b := l.browse()
	chosen := l.choose(l.all(b), "one", odd)
	require.NoError(t, b.Remove(t.Context(), chosen))
	require.NoError(t, b.Remove(t.Context(), chosen), "what is gone is gone")
	require.NoError(t, b.Remove(t.Context(), nil))
	require.NoError(t, b.Close())
	require.Equal(t, interval(0, n, even), l.list("one"))
	require.Equal(t, interval(0, n, every), l.list("two"))
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
		l.park(middleware.Parked(r, "one", errors.New("no")))
	}
	got := l.all(l.browse())
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
		l.park(&record.Record{ID: strconv.Itoa(i), Value: make([]byte, 1<<20)})
	}
	b := l.browse()
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
	l.park(parked("one", 0, n)...)
	b := l.browse()
	chosen := l.choose(l.all(b), "one", odd)
	half := l.browse()
	first, err := half.Next(t.Context(), 7)
	require.NoError(t, err)
	server.Kill(t)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(b.Remove(t.Context(), chosen)))
	_, err = half.Next(t.Context(), 7)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	_, err = l.conn.Browse(t.Context(), l.destination(), l.options)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	server.Start(t)
	require.Equal(t, interval(0, n, every), l.list("one"))
	// The client repeats an error for up to a second before it dials again.
	require.Eventually(t, func() bool {
		page, err := half.Next(t.Context(), 7)
		first = append(first, page...)
		return err == nil
	}, patience, 10*time.Millisecond)
	require.Equal(t, interval(0, n, every), numbersOf(t, append(first, l.all(half)...), "one"), "a look goes on when Redis is back")
	require.Eventually(t, func() bool { return b.Remove(t.Context(), chosen) == nil }, patience, 10*time.Millisecond)
	require.Equal(t, interval(0, n, even), l.list("one"))
}

func TestMessagesThatAreParkedDuringALookStay(t *testing.T) {
	const n = 5000
	l := newLot(t, brokers.Redis(t, "a").Address())
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
	require.Empty(t, l.list("one"))
	require.Equal(t, interval(0, n, every), l.list("two"))
}

func TestALookEndsWhereTheStreamEndedWhenItBegan(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	l.park(parked("one", 0, 10)...)
	b := l.browse()
	l.park(parked("one", 10, 20)...)
	require.Equal(t, interval(0, 10, every), numbersOf(t, l.all(b), "one"))
}

func TestAPoisonStreamThatIsMissingIsEmptyAndIsNotMade(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	require.Empty(t, l.list("one"))
	n, err := l.client.Exists(t.Context(), l.stream).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestALookAtSomethingElseThanAStreamIsAClearError(t *testing.T) {
	l := newLot(t, brokers.Redis(t, "a").Address())
	require.NoError(t, l.client.Set(t.Context(), l.stream, "text", 0).Err())
	_, err := l.conn.Browse(t.Context(), l.destination(), l.options)
	require.ErrorContains(t, err, "look through stream here/"+l.stream+": WRONGTYPE")
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
}

func TestALookWithoutTheRightToItSaysWhatIsMissing(t *testing.T) {
	server := brokers.RedisOwn(t, "--aclfile", aclFile(t, "user default on nopass ~* &* +@all", "user ferry on >secret ~* &* +xadd +xrevrange +xrange +ping +hello"))
	l := newLot(t, server.Address(), func(c *redisstream.Config) { c.Username, c.Password = "ferry", "secret" })
	l.park(parked("one", 0, 10)...)
	b := l.browse()
	err := b.Remove(t.Context(), l.choose(l.all(b), "one", odd))
	require.ErrorContains(t, err, "it needs ACL SETUSER ferry ~"+l.stream+" +xrange +xrevrange +xdel")
	require.Equal(t, interval(0, 10, every), l.list("one"))
}
