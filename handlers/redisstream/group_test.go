package redisstream_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// newSource makes a world of which only the source is used.
func newSource(t *testing.T) *world {
	t.Helper()
	address := brokers.Redis(t, "a").Address()
	w := newWorld(t, address, address)
	w.sourceOwn.Lease = config.Duration(300 * time.Millisecond)
	return w
}

// readAs lets another consumer of the group read n entries and never ack them.
func (w *world) readAs(consumer string, n int) {
	w.Helper()
	streams, err := w.client.XReadGroup(w.Context(), &redis.XReadGroupArgs{
		Group: group, Consumer: consumer, Streams: []string{w.in, ">"}, Count: int64(n),
	}).Result()
	require.NoError(w, err)
	require.Len(w, streams[0].Messages, n)
}

func (w *world) createGroup() {
	w.Helper()
	require.NoError(w, w.client.XGroupCreateMkStream(w.Context(), w.in, group, "0").Err())
}

func TestPendingEntriesOfEverybodyComeFirstAndInOrder(t *testing.T) {
	w := newSource(t)
	w.sourceOwn.ClaimIdle = config.Duration(500 * time.Millisecond)
	w.produce(0, 3000)
	w.createGroup()
	for first := 0; first < 2000; first += 100 {
		w.readAs([]string{"me", "dead", "gone"}[first/100%3], 100)
	}
	w.source.Window = 5000
	messages := w.subscribe(w.subscriber("me"))
	require.Equal(t, span(0, 3000), w.numbers(w.receive(messages, 3000)))
	w.silent(messages, 200*time.Millisecond)
}

func TestAConsumerThatIsAliveKeepsItsEntries(t *testing.T) {
	w := newSource(t)
	w.sourceOwn.ClaimIdle = config.Duration(time.Second)
	w.produce(0, 20)
	w.createGroup()
	w.readAs("alive", 10)
	messages := w.subscribe(w.subscriber("me"))
	ids := w.pendingIDs("alive")
	// It acks within the claim_idle: the reader waits for that, and takes nothing.
	require.NoError(t, w.client.XAck(t.Context(), w.in, group, ids...).Err())
	require.Equal(t, span(10, 20), w.numbers(w.receive(messages, 10)))
}

func (w *world) pendingIDs(consumer string) []string {
	w.Helper()
	pending, err := w.client.XPendingExt(w.Context(), &redis.XPendingExtArgs{
		Stream: w.in, Group: group, Start: "-", End: "+", Count: 10_000, Consumer: consumer,
	}).Result()
	require.NoError(w, err)
	ids := make([]string, len(pending))
	for i, p := range pending {
		ids[i] = p.ID
	}
	return ids
}

func TestEntriesThatAreHeldForLongAreRenewed(t *testing.T) {
	w := newSource(t)
	w.sourceOwn.ClaimIdle = config.Duration(400 * time.Millisecond)
	w.produce(0, 100)
	messages := w.subscribe(w.subscriber("me"))
	got := w.receive(messages, 100)
	// For several times the claim_idle nothing is ever idle for so long.
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		idle, err := w.client.XPendingExt(t.Context(), &redis.XPendingExtArgs{
			Stream: w.in, Group: group, Start: "-", End: "+", Count: 1000, Idle: 400 * time.Millisecond,
		}).Result()
		require.NoError(t, err)
		require.Empty(t, idle)
	}
	ack(got...)
	w.eventually(func() bool { return w.pending() == 0 }, "not everything was acked")
}

func TestReconnectsEmitNothingTwice(t *testing.T) {
	source := brokers.RedisOwn(t)
	w := newWorld(t, source.Address(), source.Address())
	w.produce(0, 5000)
	w.source.Window = 10_000 // A full window would keep the reader from reading, and so from finding out.
	s := w.subscriber("me")
	messages := w.subscribe(s)
	stop := killClients(t, source.Address(), 30*time.Millisecond)
	got := w.receive(messages, 5000)
	for range 3 {
		reconnects := w.source.Meter.Reconnects.Load()
		w.eventually(func() bool { return w.source.Meter.Reconnects.Load() > reconnects }, "no reconnect")
	}
	require.Positive(t, stop())
	require.Equal(t, span(0, 5000), w.numbers(got))
	w.silent(messages, time.Second)
	ack(got...)
	w.settled(5000)
	require.NoError(t, s.Close())
	require.Zero(t, w.pending())
}

func TestACloseLeavesNothingPendingButWhatWasNotSent(t *testing.T) {
	w := newSource(t)
	w.produce(0, 500)
	s := w.subscriber("me")
	got := w.receive(w.subscribe(s), 500)
	slices.Reverse(got)
	ack(got...)
	w.within("close", func() { require.NoError(t, s.Close()) })
	require.Zero(t, w.pending())
}

func TestAGroupThatIsDeletedIsMadeAgainFromTheStart(t *testing.T) {
	w := newSource(t)
	w.produce(0, 100)
	messages := w.subscribe(w.subscriber("me"))
	ack(w.receive(messages, 100)...)
	w.settled(100)
	require.NoError(t, w.client.XGroupDestroy(t.Context(), w.in, group).Err())
	w.eventually(func() bool { return w.source.Meter.Recreated.Load() == 1 }, "the group was not made again")
	w.produce(100, 110)
	require.Equal(t, span(0, 110), w.numbers(w.receive(messages, 110)))
	require.EqualValues(t, 1, w.source.Meter.Recreated.Load())
	require.Zero(t, w.source.Meter.Reconnects.Load())
}

func TestAGroupThatIsDeletedWhileMessagesAreInFlightEmitsThoseOnce(t *testing.T) {
	w := newSource(t)
	w.produce(0, 50)
	messages := w.subscribe(w.subscriber("me"))
	got := w.receive(messages, 50)
	require.NoError(t, w.client.XGroupDestroy(t.Context(), w.in, group).Err())
	w.eventually(func() bool { return w.source.Meter.Recreated.Load() == 1 }, "the group was not made again")
	w.produce(50, 60)
	require.Equal(t, span(50, 60), w.numbers(w.receive(messages, 10)))
	ack(got...)
}

func TestAStreamThatIsDeletedIsReadAgainWhenItComesBack(t *testing.T) {
	w := newSource(t)
	w.produce(0, 100)
	messages := w.subscribe(w.subscriber("me"))
	first := w.receive(messages, 100)
	ack(first[:50]...)
	w.settledAtLeast(50)
	require.NoError(t, w.client.Del(t.Context(), w.in).Err())
	w.eventually(func() bool { return w.source.Meter.Recreated.Load() == 1 }, "the stream was not made again")
	w.produce(100, 200)
	second := w.receive(messages, 100)
	require.Equal(t, span(100, 200), w.numbers(second))
	ack(first[50:]...)
	ack(second...)
	w.settled(200)
}

func TestANewStreamsEntriesAreNotTakenForTheOldOnes(t *testing.T) {
	w := newSource(t)
	add := func(id string, n int) {
		t.Helper()
		require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, ID: id, Values: []any{"payload", n}}).Err())
	}
	add("1-1", 0)
	messages := w.subscribe(w.subscriber("me"))
	old := w.receive(messages, 1)
	require.NoError(t, w.client.Del(t.Context(), w.in).Err())
	w.eventually(func() bool { return w.source.Meter.Recreated.Load() == 1 }, "the stream was not made again")
	add("1-1", 1)
	require.Equal(t, []int{1}, w.numbers(w.receive(messages, 1)))
	ack(old...)
}

func (w *world) settledAtLeast(n int64) {
	w.Helper()
	w.eventually(func() bool { return w.source.Meter.Committed.Load() >= n }, "too little was acked")
}

func TestEntriesThatWereTrimmedWhilePendingAreCountedAndAcked(t *testing.T) {
	for _, consumer := range []string{"me", "predecessor"} {
		t.Run("of "+consumer, func(t *testing.T) {
			w := newSource(t)
			w.produce(0, 100)
			s := w.subscriber(consumer)
			ack(w.receive(w.subscribe(s), 100)[0])
			w.settledAtLeast(1)
			abort(s)
			require.NoError(t, s.Close())
			require.NoError(t, w.client.XTrimMaxLen(t.Context(), w.in, 20).Err())

			w.source.Meter = newMeter()
			messages := w.subscribe(w.subscriber("me"))
			got := w.receive(messages, 20)
			require.Equal(t, span(80, 100), w.numbers(got))
			require.EqualValues(t, 79, w.source.Meter.Dropped.Load())
			ack(got...)
			w.settled(20)
		})
	}
}

func TestAGroupBeginsWhereItIsToldTo(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	for name, c := range map[string]struct {
		start config.Start
		want  []int
	}{
		"earliest":                       {config.Start{}, span(0, 5)},
		"latest":                         {config.Start{Latest: true}, nil},
		"a time":                         {config.Start{Time: at}, span(1, 5)},
		"a moment after it":              {config.Start{Time: at.Add(time.Nanosecond)}, span(3, 5)},
		"a time before there was Redis":  {config.Start{Time: time.UnixMilli(-5)}, span(0, 5)},
		"a time after the newest entry.": {config.Start{Time: at.Add(time.Hour)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSource(t)
			for i, id := range []string{"1699999999999-7", "1700000000000-0", "1700000000000-1", "1700000000001-0", "1700000000002-0"} {
				require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, ID: id, Values: []any{"payload", i}}).Err())
			}
			w.source.Start = c.start
			messages := w.subscribe(w.subscriber("me"))
			w.eventually(func() bool { return w.pending() >= 0 }, "no group")
			require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, ID: "1800000000000-0", Values: []any{"payload", 9}}).Err())
			got := w.receive(messages, len(c.want)+1)
			require.Equal(t, append(slices.Clone(c.want), 9), w.numbers(got))
		})
	}
}

func TestEntriesOfAnyShapeAreCarried(t *testing.T) {
	w := newSource(t)
	add := func(fields ...any) {
		t.Helper()
		require.NoError(t, w.client.Do(t.Context(), append([]any{"XADD", w.in, "*"}, fields...)...).Err())
	}
	add("b", "1", "a", "2", "b", "\xff\x00")
	add("payload", "p", "z", "", "payload", "second")
	add(record.IDKey, "mine", "payload", "p", "metadata", "this is no msgpack")
	add(record.IDKey, "mine", "payload", "p", "metadata", "\xdf\xff\xff\xff\xff")
	before, err := w.client.Do(t.Context(), "XRANGE", w.in, "-", "+").Slice()
	require.NoError(t, err)
	stop := w.relay()
	w.settled(4)
	stop()
	after, err := w.there.Do(t.Context(), "XRANGE", w.out, "-", "+").Slice()
	require.NoError(t, err)
	require.Len(t, after, 4)
	for i := range before {
		require.Equal(t, before[i].([]any)[1], after[i].([]any)[1])
	}
}
