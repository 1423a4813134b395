package router_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

// copies produces n messages, each of them as often as says, in one lane or two.
func (w *world) copies(n, often, lanes int) {
	for i := range n {
		for k := range often {
			w.store.Site("a").Produce("x", k%lanes, &record.Record{ID: "id-" + strconv.Itoa(i), Value: []byte(strconv.Itoa(i))})
		}
	}
}

func (w *world) acked(n, lanes int) {
	w.Helper()
	w.await("a", func() bool {
		sum := 0
		for lane := range lanes {
			sum += w.store.Site("a").Committed("x", "mqferry-one", lane)
		}
		return sum == n
	})
}

func TestCopiesAreDeliveredOnce(t *testing.T) {
	redis := miniredis.RunT(t)
	for name, options := range map[string]string{
		"memory": ", deduplicate: {}", "redis": fmt.Sprintf(", deduplicate: {redis: {address: %q}}", redis.Addr()),
	} {
		for _, lanes := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, lanes: %d", name, lanes), func(t *testing.T) {
				redis.FlushAll()
				w := policed(t, options)
				w.copies(500, 4, lanes)
				w.run()
				w.acked(2000, lanes)
				require.NoError(t, w.end())
				got := w.values("b", "y")
				if lanes == 1 {
					require.Equal(t, upTo(500), got)
				}
				require.Equal(t, upTo(500), slices.Sorted(slices.Values(got)))
				n, _ := w.status("one").Meter.Ended(handlers.Duplicate)
				require.EqualValues(t, 1500, n)
			})
		}
	}
}

func TestAMessageThatComesAgainAfterAFailureIsNotTakenForACopy(t *testing.T) {
	w := policed(t, ", deduplicate: {}, poison: off, retry: {max_attempts: 1}")
	var n atomic.Int64
	w.store.Site("b").OnPublish(func(string, *record.Record, int) memory.Verdict {
		switch n.Add(1) {
		case 3:
			return memory.Refuse(handlers.Refused(errors.New("no")))
		case 7:
			return memory.Lose(false)
		}
		return memory.Confirm()
	})
	w.copies(100, 2, 1)
	w.run()
	w.acked(200, 1)
	require.NoError(t, w.end())
	require.Equal(t, upTo(100), slices.Sorted(slices.Values(w.values("b", "y"))))
}

func TestARedisRemembersOverARestart(t *testing.T) {
	redis := miniredis.RunT(t)
	options := fmt.Sprintf(", deduplicate: {by: header.order, ttl: 1h, redis: {address: %q}}", redis.Addr())
	order := func(w *world, n int) {
		w.store.Site("a").Produce("x", 0, &record.Record{Value: []byte(strconv.Itoa(n)), Headers: []record.Header{{Key: "order", Value: []byte{'o', byte(n)}}}})
	}
	for restart := range 2 {
		w := policed(t, options)
		for n := range 10 {
			order(w, n)
		}
		w.run()
		w.acked(10, 1)
		require.NoError(t, w.end())
		require.Len(t, w.values("b", "y"), 10*(1-restart))
	}
	redis.FastForward(2 * time.Hour)
	w := policed(t, options)
	order(w, 1)
	w.run()
	w.arrives("b", "y", 1)
	require.NoError(t, w.end())
}

func TestMessagesWaitForARedisThatIsDown(t *testing.T) {
	redis := miniredis.RunT(t)
	w := policed(t, fmt.Sprintf(", deduplicate: {redis: {address: %q}}", redis.Addr()))
	redis.SetError("LOADING")
	w.copies(10, 1, 1)
	w.run()
	require.Eventually(t, func() bool { return w.status("one").Destination.Refusal != nil }, patience, time.Millisecond)
	require.Zero(t, w.store.Site("b").Count("y"))
	redis.SetError("")
	w.arrives("b", "y", 10)
	require.NoError(t, w.end())
	require.Zero(t, w.store.Site("a").Count("x.poison"))
}

func TestAMessageWithoutAnIDIsDeliveredAndCounted(t *testing.T) {
	w := policed(t, ", deduplicate: {by: header.order}")
	w.produce("a", "x", 0, 10)
	w.run()
	w.arrives("b", "y", 10)
	require.NoError(t, w.end())
	require.EqualValues(t, 10, w.status("one").Meter.NoID.Load())
}
