package router_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
)

// shop has two routes that park in one poison queue. Site b refuses what is odd.
type shop struct {
	*world
	text string
	opts []router.Option
}

func newShop(t *testing.T, n int) *shop {
	t.Helper()
	const text = `
shutdown_timeout: 2s
datacenters: {a: {store: {}}, b: {store: {}}, p: {store: {}}}
defaults: {window: 64, retry: {max_attempts: 1}, poison: {datacenter: p, topic: dead}}
routes:
  - {name: one, from: a/x, to: b/y}
  - {name: two, from: a/x, to: b/z}
`
	s := &shop{world: newWorld(t, text), text: text}
	s.opts = []router.Option{router.WithBroker("store", s.store.Broker())}
	s.refuse(func(n int) bool { return n%2 == 1 })
	s.produce("a", "x", 0, n)
	s.run()
	s.await("p", func() bool { return s.store.Site("p").Count("dead") == n })
	s.arrives("b", "y", n/2)
	require.NoError(t, s.end())
	return s
}

func (s *shop) refuse(wrong func(n int) bool) {
	s.store.Site("b").OnPublish(func(_ string, r *record.Record, _ int) memory.Verdict {
		if n, err := strconv.Atoi(string(r.Value)); err == nil && wrong(n) {
			return memory.Refuse(handlers.Refused(errors.New("odd")))
		}
		return memory.Confirm()
	})
}

func (s *shop) open(route string) *router.PoisonQueue {
	s.Helper()
	cfg, err := router.Parse("test.yml", []byte(s.text), s.opts...)
	require.NoError(s, err)
	q, err := router.OpenPoisonQueue(s.Context(), cfg, route, s.opts...)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, q.Close()) })
	return q
}

// list gives what the queue holds of a route, sorted.
func (s *shop) list(route string) []int {
	s.Helper()
	all := s.queued(route)
	slices.Sort(all)
	return all
}

// queued gives it in the order of the queue.
func (s *shop) queued(route string) []int {
	s.Helper()
	var all []int
	require.NoError(s, s.open(route).Each(s.Context(), func(m router.ParkedMessage) bool {
		n, err := strconv.Atoi(string(m.Record.Value))
		require.NoError(s, err)
		all = append(all, n)
		return true
	}))
	return all
}

func odd(from, to int) []int {
	var all []int
	for i := from; i < to; i++ {
		if i%2 == 1 {
			all = append(all, i)
		}
	}
	return all
}

func everything(router.ParkedMessage) bool { return true }

func TestAPoisonQueueIsListedWithoutBeingConsumed(t *testing.T) {
	s := newShop(t, 1000)
	require.Equal(t, odd(0, 1000), s.list("one"))
	require.Equal(t, odd(0, 1000), s.list("one"))
	seen := 0
	require.NoError(t, s.open("two").Each(t.Context(), func(m router.ParkedMessage) bool {
		require.Equal(t, "refused", m.Class)
		require.Contains(t, m.Reason, "publish to b/z: ")
		require.Equal(t, 1, m.Attempts)
		require.WithinDuration(t, time.Now(), m.Last, time.Minute)
		require.Equal(t, "a", m.Record.Source.DataCenter)
		seen++
		return seen < 7
	}))
	require.Equal(t, 7, seen)
}

func TestOnlyWhatIsChosenIsDiscarded(t *testing.T) {
	s := newShop(t, 1000)
	n, err := s.open("one").Discard(t.Context(), func(m router.ParkedMessage) bool { return len(m.Record.Value) < 3 })
	require.NoError(t, err)
	require.Equal(t, 50, n)
	require.Equal(t, odd(100, 1000), s.list("one"))
	require.Equal(t, odd(0, 1000), s.list("two"), "the other route's are not touched")
}

func TestAReplayDeliversInOrderAndLeavesWhatFailsAgain(t *testing.T) {
	s := newShop(t, 1000)
	s.refuse(func(n int) bool { return n%100 == 1 })
	queued := s.queued("one")
	var last router.Replayed
	done, err := s.open("one").Replay(t.Context(), everything, func(r router.Replayed) { last = r })
	require.NoError(t, err)
	require.Equal(t, 490, done.Delivered)
	require.Equal(t, 10, done.Failed)
	require.ErrorContains(t, done.Err, "odd")
	require.Equal(t, done, last)
	require.Equal(t, slices.DeleteFunc(odd(0, 1000), func(n int) bool { return n%100 != 1 }), s.list("one"))
	require.Equal(t, odd(0, 1000), s.list("two"))
	got := s.values("b", "y")[500:]
	require.Equal(t, slices.DeleteFunc(queued, func(n int) bool { return n%100 == 1 }), got)
	first := s.store.Site("b").Messages("y")[500]
	require.Equal(t, "a/x/0@"+string(first.Value), first.ID, "its own id, not that in the poison queue")
	require.Empty(t, first.Headers)
	require.Nil(t, first.Key)
}

func TestAReplayThatIsInterruptedLosesNothing(t *testing.T) {
	s := newShop(t, 1000)
	s.refuse(func(int) bool { return false })
	ctx, stop := context.WithCancel(t.Context())
	done, err := s.open("one").Replay(ctx, everything, func(router.Replayed) { stop() })
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, done.Delivered, 500)
	left := s.list("one")
	require.Len(t, left, 500-done.Delivered)
	all := append(s.values("b", "y")[500:], left...)
	slices.Sort(all)
	require.Equal(t, odd(0, 1000), slices.Compact(all))
	done, err = s.open("one").Replay(t.Context(), everything, nil)
	require.NoError(t, err)
	require.Equal(t, len(left), done.Delivered)
	require.Empty(t, s.list("one"))
}

func TestAReplayWaitsForADestinationThatIsDown(t *testing.T) {
	s := newShop(t, 100)
	s.refuse(func(int) bool { return false })
	q := s.open("one")
	ended := make(chan error, 1)
	first := true
	go func() {
		_, err := q.Replay(t.Context(), func(router.ParkedMessage) bool {
			if first { // It is open already.
				first = false
				s.store.Site("b").Down()
			}
			return true
		}, nil)
		ended <- err
	}()
	select {
	case <-ended:
		t.Fatal("it did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	require.Equal(t, odd(0, 100), s.list("one"))
	s.store.Site("b").Up()
	require.NoError(t, within(t, patience, ended))
	require.Empty(t, s.list("one"))
}

func TestAnEmptyPoisonQueueAndOneThatIsOff(t *testing.T) {
	s := newShop(t, 0)
	require.Empty(t, s.list("one"))
	done, err := s.open("one").Replay(t.Context(), everything, nil)
	require.NoError(t, err)
	require.Zero(t, done)
	cfg, err := router.Parse("test.yml", []byte("datacenters: {a: {store: {}}}\nroutes: [{name: one, from: a/x, to: a/y, poison: off}]"), s.opts...)
	require.NoError(t, err)
	for route, want := range map[string]string{"one": "it is off", "ten": `there is no route "ten"`} {
		_, err = router.OpenPoisonQueue(t.Context(), cfg, route, s.opts...)
		require.ErrorContains(t, err, want)
	}
}
