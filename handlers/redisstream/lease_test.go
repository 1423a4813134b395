package redisstream_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestASecondInstanceStandsByAndTakesOver(t *testing.T) {
	w := newSource(t)
	// A clean end is not waited for, nor are the entries that it left.
	w.sourceOwn.Lease, w.sourceOwn.ClaimIdle = config.Duration(time.Hour), config.Duration(time.Hour)
	w.produce(0, 100)
	first := w.subscriber("one")
	firstMessages := w.subscribe(first)
	got := w.receive(firstMessages, 100)
	ack(got[:30]...)
	w.settledAtLeast(30)
	second := w.subscriber("two")
	secondMessages := w.subscribe(second)
	w.silent(secondMessages, time.Second)
	abort(first)
	require.NoError(t, first.Close())
	require.Equal(t, span(30, 100), w.numbers(w.receive(secondMessages, 70)))
}

func TestAReaderThatDiedIsReplacedWhenItsLeaseRunsOut(t *testing.T) {
	source := brokers.Redis(t, "a")
	link := source.Link(t)
	w := newWorld(t, source.Address(), source.Address())
	w.sourceOwn.Lease, w.sourceOwn.ClaimIdle = config.Duration(500*time.Millisecond), config.Duration(time.Hour)
	w.produce(0, 100)
	direct := w.from
	w.from = link.Address()
	lost := w.subscriber("lost")
	lostMessages := w.subscribe(lost)
	old := w.receive(lostMessages, 100)
	link.Cut()
	w.from = direct
	messages := w.subscribe(w.subscriber("successor"))
	got := w.receive(messages, 100)
	require.Equal(t, span(0, 100), w.numbers(got))
	require.NoError(t, link.Heal())
	// The one that was away finds out, and its lane is closed.
	select {
	case <-old[0].Context().Done():
	case <-time.After(patience):
		require.FailNow(t, "the lane goes on without the lease")
	}
	w.silent(lostMessages, 300*time.Millisecond)
	ack(old...)
	require.Equal(t, 100, w.pending(), "acked without the lease")
	ack(got...)
	w.eventually(func() bool { return w.pending() == 0 }, "not everything was acked")
}

func TestAReaderThatWasAwayAndKeptItsLeaseGoesOn(t *testing.T) {
	source := brokers.Redis(t, "a")
	link := source.Link(t)
	w := newWorld(t, source.Address(), source.Address())
	w.sourceOwn.Lease = config.Duration(200 * time.Millisecond)
	w.from = link.Address()
	w.produce(0, 100)
	messages := w.subscribe(w.subscriber("me"))
	got := w.receive(messages, 100)
	link.Cut()
	lease := "mqferry:{" + w.in + "}:" + group + ":lease"
	w.eventually(func() bool {
		until, err := w.client.HGet(t.Context(), lease, "until").Result()
		require.NoError(t, err)
		ms, err := strconv.ParseInt(until, 10, 64)
		require.NoError(t, err)
		return time.Now().UnixMilli() > ms
	}, "the lease does not run out")
	ack(got...)
	require.NoError(t, link.Heal())
	w.settled(100)
	require.NoError(t, got[0].Context().Err())
	w.produce(100, 110)
	require.Equal(t, span(100, 110), w.numbers(w.receive(messages, 10)))
}

func TestTwoProcessesOfOneNameKeepTheOrder(t *testing.T) {
	w := newWorld(t, brokers.Redis(t, "a").Address(), brokers.Redis(t, "b").Address())
	w.sourceOwn.Lease = config.Duration(300 * time.Millisecond)
	const n = 20_000
	w.produce(0, n)
	stopFirst, stopSecond := w.relay(), w.relay()
	w.settled(n)
	stopFirst()
	stopSecond()
	w.requireNoLoss(n, 0)
}

func TestAnInstanceThatWaitsForALeaseIsDownAndSaysWhy(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		t.Run("held by "+name, func(t *testing.T) {
			source := brokers.Redis(t, "a")
			link := source.Link(t)
			w := newWorld(t, source.Address(), source.Address())
			w.sourceOwn.Lease, w.sourceOwn.ClaimIdle = config.Duration(500*time.Millisecond), config.Duration(time.Hour)
			w.produce(0, 100)
			direct := w.from
			w.from = link.Address()
			old := w.receive(w.subscribe(w.subscriber(name)), 100)

			w.from, w.source.Health = direct, handlers.NewHealth(nil)
			messages := w.subscribe(w.subscriber("two"))
			w.eventually(func() bool { _, _, err := w.source.Health.State(); return err != nil }, "nothing tells that it waits")
			up, _, err := w.source.Health.State()
			require.False(t, up)
			require.ErrorContains(t, err, "standing by: ")
			require.ErrorContains(t, err, `"`+name+`" holds the lease of stream here/`+w.in)
			w.silent(messages, time.Second)

			link.Cut()
			require.Equal(t, span(0, 100), w.numbers(w.receive(messages, 100)))
			w.eventually(func() bool { up, _, _ := w.source.Health.State(); return up }, "it reads and is shown as down")
			require.NoError(t, link.Heal())
			select {
			case <-old[0].Context().Done():
			case <-time.After(patience):
				require.FailNow(t, "the lane goes on without the lease")
			}
		})
	}
}
