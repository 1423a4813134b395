package redisstream_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
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
)

func stockClient(c *redisstream.Config) { c.Client = redisstream.Watermill }

// newStockWorld is a world whose ends are those of the stock package.
func newStockWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, brokers.Redis(t, "a").Address(), brokers.Redis(t, "b").Address())
	w.change = []func(*redisstream.Config){stockClient}
	return w
}

func TestTheStockClientCarriesRecords(t *testing.T) {
	w := newStockWorld(t)
	sent := []*record.Record{
		{ID: "1", Value: []byte("v"), Time: time.Unix(1, 2)},
		{ID: "2", Key: []byte("\xff"), Value: []byte{}, Headers: []record.Header{{Key: "a", Value: []byte("\x00")}}},
		{ID: "3", Headers: []record.Header{{Key: "b", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte("7"), Type: record.Int8}}},
	}
	// Neither fields in their order nor repeated ones survive the maps of the stock package; sorted ones do.
	foreign := [][]any{{"a", "\xff", "payload", "p", "z", ""}, {"a", "1", "b", "2"}, {record.IDKey, "mine", "metadata", "no msgpack", "payload", "p"}}

	w.change, w.to = nil, w.from
	p := w.publisher()
	for _, r := range sent {
		require.NoError(t, p.Publish(w.in, r.Message(t.Context())))
	}
	for _, fields := range foreign {
		require.NoError(t, w.client.Do(t.Context(), append([]any{"XADD", w.in, "*"}, fields...)...).Err())
	}
	w.change, w.to = []func(*redisstream.Config){stockClient}, brokers.Redis(t, "b").Address()
	stop := w.relay()
	w.settled(len(sent) + len(foreign))
	stop()

	entries, err := w.there.Do(t.Context(), "XRANGE", w.out, "-", "+").Slice()
	require.NoError(t, err)
	require.Len(t, entries, len(sent)+len(foreign))
	for i, fields := range foreign {
		got := map[any]any{}
		flat := entries[len(sent)+i].([]any)[1].([]any)
		for k := 0; k < len(flat); k += 2 {
			got[flat[k]] = flat[k+1]
		}
		want := map[any]any{}
		for k := 0; k < len(fields); k += 2 {
			want[fields[k]] = fields[k+1]
		}
		require.Equal(t, want, got)
	}
	w.change, w.from, w.source.Topic = nil, w.to, w.out
	messages := w.subscribe(w.subscriber("me"))
	for _, want := range sent {
		got := w.receive(messages, 1)[0]
		got.Ack()
		r := *record.From(got.Context())
		if !want.Time.IsZero() {
			require.True(t, want.Time.Equal(r.Time))
		}
		r.Time, r.Source = want.Time, record.Source{}
		if len(r.Headers) == 0 {
			r.Headers = nil
		}
		require.Equal(t, want, &r)
	}
}

func TestTheStockClientGivesAMessageWithoutAnIDThatOfItsPlace(t *testing.T) {
	w := newStockWorld(t)
	id, err := w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, Values: []any{"a", "1"}}).Result()
	require.NoError(t, err)
	s := w.subscriber("me")
	got := w.receive(w.subscribe(s), 1)[0]
	require.Equal(t, "here/"+w.in+"@"+id, got.UUID)
	got.Ack()
	require.NoError(t, s.Close())
}

func TestCleanStopsOfTheStockClientRepeatNothingAndKeepTheOrder(t *testing.T) {
	w := newStockWorld(t)
	const n = 400
	w.produce(0, n)
	for round := 1; round <= 4; round++ {
		stop := w.relay()
		w.eventually(func() bool { return int(w.source.Meter.Committed.Load()) >= round*n/5 }, "nothing is acked")
		stop()
	}
	stop := w.relay()
	w.settled(n)
	stop()
	all, _ := w.arrived()
	require.Equal(t, span(0, n), all)
}

func TestTheStockClientTakesUpWhatItLeftBehindBeforeItReadsOn(t *testing.T) {
	w := newStockWorld(t)
	w.produce(0, 20)
	w.createGroup()
	w.readAs("me", 10)
	require.NoError(t, w.client.XDel(t.Context(), w.in, w.pendingIDs("me")[3]).Err())
	messages := w.subscribe(w.subscriber("me"))
	for _, i := range append(span(0, 3), span(4, 20)...) {
		got := w.receive(messages, 1)
		require.Equal(t, []int{i}, w.numbers(got))
		ack(got...)
	}
	require.EqualValues(t, 1, w.source.Meter.Dropped.Load())
}

func TestTheStockClientDoesNotClaimWhatItHolds(t *testing.T) {
	w := newStockWorld(t)
	w.sourceOwn.ClaimIdle = config.Duration(100 * time.Millisecond)
	w.produce(0, 2)
	messages := w.subscribe(w.subscriber("me"))
	held := w.receive(messages, 1)
	w.silent(messages, time.Second)
	ack(held...)
	next := w.receive(messages, 1)
	require.Equal(t, []int{1}, w.numbers(next))
	ack(next...)
	w.eventually(func() bool { return w.pending() == 0 }, "not everything was acked")
	w.silent(messages, 300*time.Millisecond)
}

func TestTheStockClientBeginsWhereItIsToldTo(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	for name, c := range map[string]struct {
		start config.Start
		first int
	}{
		"earliest": {config.Start{}, 0},
		"latest":   {config.Start{Latest: true}, 3},
		"a time":   {config.Start{Time: at}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStockWorld(t)
			add := func(id string, n int) {
				t.Helper()
				require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, ID: id, Values: []any{"payload", n}}).Err())
			}
			for i, id := range []string{"1699999999999-7", "1700000000000-0", "1700000000001-0"} {
				add(id, i)
			}
			w.source.Start = c.start
			messages := w.subscribe(w.subscriber("me"))
			w.eventually(func() bool { return w.pending() >= 0 }, "no group")
			add("1800000000000-0", 3)
			for i := c.first; i <= 3; i++ {
				got := w.receive(messages, 1)
				require.Equal(t, []int{i}, w.numbers(got))
				ack(got...)
			}
		})
	}
}

func TestTheStockClientMakesAGroupAgainThatIsGone(t *testing.T) {
	w := newStockWorld(t)
	w.source.Start = config.Start{Latest: true}
	messages := w.subscribe(w.subscriber("me"))
	w.eventually(func() bool { return w.pending() >= 0 }, "no group")
	w.produce(0, 1)
	ack(w.receive(messages, 1)...)
	w.settled(1)
	require.NoError(t, w.client.Del(t.Context(), w.in).Err())
	w.produce(1, 2) // Before the group is there again.
	got := w.receive(messages, 1)
	require.Equal(t, []int{1}, w.numbers(got))
	ack(got...)
	w.settled(2)
	require.EqualValues(t, 1, w.source.Meter.Recreated.Load())
	require.Zero(t, w.source.Meter.Reconnects.Load())
}

func TestTheStockClientSurvivesServersThatCrash(t *testing.T) {
	source, destination := brokers.RedisOwn(t, "--appendfsync", "always"), brokers.RedisOwn(t, "--appendfsync", "always")
	w := newWorld(t, source.Address(), destination.Address())
	w.change = []func(*redisstream.Config){stockClient}
	const n = 600
	w.produce(0, n)
	stop := w.relay()
	crash := func(b *brokers.Broker, h *handlers.Health, acked int64) {
		t.Helper()
		w.eventually(func() bool { return w.source.Meter.Committed.Load() >= acked }, "nothing is acked")
		b.Kill(t)
		w.eventually(func() bool { up, _, _ := h.State(); return !up }, "nobody noticed")
		b.Start(t)
		w.eventually(func() bool { up, _, _ := h.State(); return up }, "nobody noticed that it is back")
	}
	crash(destination, w.destination.Health, n/4)
	crash(source, w.source.Health, n/2)
	w.settled(n)
	stop()
	w.requireNoLoss(n, 4)
}

func TestWhatTheStockClientIsRefusedHasAClass(t *testing.T) {
	server := brokers.RedisOwn(t)
	w := newWorld(t, server.Address(), server.Address())
	w.change = []func(*redisstream.Config){stockClient}
	p := w.publisher()
	publish := func(size int) error { return p.Publish(w.out, message.NewMessage("id", make([]byte, size))) }
	require.NoError(t, publish(1))
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(publish(600<<20)))
	require.NoError(t, w.client.Set(t.Context(), w.in, "no stream", 0).Err())
	err := p.Publish(w.in, message.NewMessage("id", nil))
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
	require.ErrorContains(t, err, w.in)
	require.NoError(t, w.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.Equal(t, handlers.ClassFull, handlers.ClassOf(publish(1)))
	require.NoError(t, w.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, publish(1))
	server.Kill(t)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(publish(1)))
	server.Start(t)
	w.eventually(func() bool { return publish(1) == nil }, "the publisher does not recover")
}

func TestAStockPublisherIsClosedWhileItWaits(t *testing.T) {
	server := brokers.RedisOwn(t)
	w := newWorld(t, server.Address(), server.Address())
	w.change = []func(*redisstream.Config){stockClient}
	p := w.publisher()
	require.NoError(t, p.Publish(w.out, message.NewMessage("id", nil)))
	server.Pause(t)
	result := make(chan error, 1)
	go func() { result <- p.Publish(w.out, message.NewMessage("id", nil)) }()
	w.within("Close", func() { require.NoError(t, p.Close()) })
	server.Resume(t)
	select {
	case err := <-result:
		require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err), "%v", err)
	case <-time.After(patience):
		require.FailNow(t, "Publish does not return")
	}
	require.NoError(t, p.Close())
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(p.Publish(w.out, message.NewMessage("id", nil))))
}

// lines is a log that may be written from several goroutines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestTheStockClientLogsNothingForAMessageAndAnOutageOnce(t *testing.T) {
	source := brokers.RedisOwn(t)
	w := newWorld(t, source.Address(), brokers.Redis(t, "b").Address())
	w.change = []func(*redisstream.Config){stockClient}
	log := &lines{}
	w.source.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.source.Health = handlers.NewHealth(w.source.Logger)
	w.destination.Logger = w.source.Logger
	w.produce(0, 300)
	stop := w.relay()
	w.settled(300)
	require.Less(t, strings.Count(log.String(), "\n"), 10, log)
	source.Kill(t)
	w.eventually(func() bool { up, _, _ := w.source.Health.State(); return !up }, "nobody noticed")
	<-time.After(1500 * time.Millisecond) // How long it lasts.
	source.Start(t)
	w.eventually(func() bool { up, _, _ := w.source.Health.State(); return up }, "nobody noticed that it is back")
	stop()
	require.Less(t, strings.Count(log.String(), "\n"), 20, log)
	require.NotContains(t, log.String(), "id-"+strconv.Itoa(100))
}

func TestAStockSubscriberMayBeClosedAtAnyTime(t *testing.T) {
	w := newStockWorld(t)
	w.produce(0, 10)
	unused := w.subscriber("me")
	require.NoError(t, unused.Close())
	_, err := unused.Subscribe(t.Context(), w.in)
	require.Error(t, err)

	s := w.subscriber("me")
	messages := w.subscribe(s)
	ack(w.receive(messages, 1)...)
	w.within("Close", func() { require.NoError(t, s.Close()) })
	w.within("the second Close", func() { require.NoError(t, s.Close()) })
	_, open := <-messages
	require.False(t, open)
	require.EqualValues(t, 1, w.source.Meter.Committed.Load())
	_, err = s.Subscribe(t.Context(), w.in)
	require.Error(t, err)
}
