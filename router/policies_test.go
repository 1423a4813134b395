package router_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
	"github.com/mqferry/mqferry/router"
)

// policed is a route with a quick retry, and what else its options say.
func policed(t *testing.T, options string, opts ...router.Option) *world {
	t.Helper()
	return newWorld(t, `
shutdown_timeout: 2s
datacenters: {a: {store: {}}, b: {store: {}}, p: {store: {}}}
defaults: {retry: {max_attempts: 3, initial_interval: 1ms, max_interval: 5ms}}
routes: [{name: one, from: a/x, to: b/y`+options+`}]
`, opts...)
}

// judged lets site b answer message number k with the errors in turn, and then confirm it.
func (w *world) judged(k int, errs ...error) (attempts *atomic.Int64) {
	attempts = &atomic.Int64{}
	w.store.Site("b").OnPublish(func(_ string, r *record.Record, _ int) memory.Verdict {
		if string(r.Value) != strconv.Itoa(k) {
			return memory.Confirm()
		}
		n := int(attempts.Add(1))
		if n > len(errs) {
			return memory.Confirm()
		}
		if handlers.ClassOf(errs[n-1]) == handlers.ClassUnavailable {
			return memory.Lose(false)
		}
		return memory.Refuse(errs[n-1])
	})
	return attempts
}

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

func TestEveryFailureHasAPolicy(t *testing.T) {
	var (
		refused     = handlers.Refused(errors.New("no"))
		permanent   = handlers.Permanent(errors.New("never\nstack of frames"))
		full        = handlers.Full(errors.New("no room"))
		unroutable  = handlers.Unroutable(errors.New("no place"))
		unavailable = handlers.Unavailable(errors.New("gone"))
	)
	for _, test := range []struct {
		name     string
		options  string
		errs     []error
		attempts int64
		parked   string // The class in the header; empty when it arrives.
		tries    string
	}{
		{"refused once", "", repeat(refused, 1), 2, "", ""},
		{"refused to the last attempt but one", "", repeat(refused, 2), 3, "", ""},
		{"refused to the last attempt", "", repeat(refused, 99), 3, "refused", "3"},
		{"refused, and that is held", ", on_refused: hold", repeat(refused, 8), 9, "", ""},
		{"refused, and never given up", ", retry: {max_attempts: 0, initial_interval: 1ms}", repeat(refused, 6), 7, "", ""},
		{"refused, without a poison queue", ", poison: off", repeat(refused, 5), 6, "", ""},
		{"permanent", "", repeat(permanent, 99), 1, "permanent", "1"},
		{"permanent, and that is held", ", on_refused: hold", repeat(permanent, 2), 3, "", ""},
		{"full", "", repeat(full, 4), 5, "", ""},
		{"full, and that is parked", ", on_capacity: park", repeat(full, 99), 3, "full", "3"},
		{"unroutable", "", repeat(unroutable, 4), 5, "", ""},
		{"unroutable, and that is parked", ", on_unroutable: park", repeat(unroutable, 99), 3, "unroutable", "3"},
		{"lost on the way, more often than there are attempts", "", repeat(unavailable, 5), 6, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const k, n = 40, 100
			w := policed(t, test.options)
			attempts := w.judged(k, test.errs...)
			w.produce("a", "x", 0, n)
			w.run()
			arriving := n
			if test.parked != "" {
				arriving--
			}
			w.arrives("b", "y", arriving)
			require.Eventually(t, func() bool { return w.store.Site("a").Committed("x", "mqferry-one", 0) == n }, patience, time.Millisecond)
			require.NoError(t, w.end())
			require.Equal(t, test.attempts, attempts.Load())
			w.arrivedInOrder(k)
			w.parkedIs(k, test.parked, test.tries)
		})
	}
}

// arrivedInOrder checks that all but message k came once, in order, and k at most once.
func (w *world) arrivedInOrder(k int) {
	w.Helper()
	got := w.values("b", "y")
	others := slices.DeleteFunc(slices.Clone(got), func(n int) bool { return n == k })
	want := slices.DeleteFunc(upTo(100), func(n int) bool { return n == k })
	first := slices.Compact(slices.Sorted(slices.Values(others)))
	require.Equal(w, want, first, "none is missing")
	if len(others) == len(want) { // A connection that broke repeats a tail.
		require.Equal(w, want, others, "in order")
	}
	require.LessOrEqual(w, len(got)-len(others), 1)
}

func (w *world) parkedIs(k int, class, attempts string) {
	w.Helper()
	parked := w.store.Site("a").Messages("x.poison")
	if class == "" {
		require.Empty(w, parked)
		return
	}
	require.Len(w, parked, 1)
	original, why, ok := middleware.Unparked(parked[0])
	require.True(w, ok)
	source := w.store.Site("a").Messages("x")[k]
	require.Equal(w, source.Value, original.Value)
	require.Equal(w, source.Headers, original.Headers)
	require.Equal(w, source.Key, original.Key)
	require.Equal(w, source.ID, original.ID)
	require.True(w, source.Time.Equal(original.Time))
	require.Equal(w, "one", why[middleware.PoisonRoute])
	require.Equal(w, "a", why[middleware.PoisonDataCenter])
	require.Equal(w, "x", why[middleware.PoisonTopic])
	require.Equal(w, strconv.Itoa(k), why[middleware.PoisonPosition])
	require.Equal(w, class, why[middleware.PoisonClass])
	require.Equal(w, attempts, why[middleware.PoisonAttempts])
	require.Contains(w, why[middleware.PoisonReason], "publish to b/y: ")
	require.NotContains(w, why[middleware.PoisonReason], "frames")
	first, err := time.Parse(time.RFC3339Nano, why[middleware.PoisonFirst])
	require.NoError(w, err)
	last, err := time.Parse(time.RFC3339Nano, why[middleware.PoisonLast])
	require.NoError(w, err)
	require.False(w, last.Before(first))
	count, _ := w.status("one").Meter.Ended(handlers.Parked)
	require.EqualValues(w, 1, count)
	count, _ = w.status("one").Meter.Ended(handlers.Forwarded)
	require.EqualValues(w, 99, count)
}

func TestParkingWaitsForAPoisonQueueThatIsDown(t *testing.T) {
	w := policed(t, `, poison: {datacenter: p, topic: "{topic}.dead"}`)
	w.judged(3, repeat(handlers.Permanent(errors.New("no")), 99)...)
	w.run()
	require.Eventually(t, func() bool { return w.status("one").Phase == router.Running }, patience, time.Millisecond)
	w.store.Site("p").Down()
	w.produce("a", "x", 0, 10)
	require.Eventually(t, func() bool { return w.status("one").Poison.Error != nil }, patience, time.Millisecond)
	require.Equal(t, "p/x.dead", w.status("one").PoisonQueue)
	require.Eventually(t, func() bool { return w.status("one").Trouble() != "" }, 5*time.Second, time.Millisecond, "a route that waits is shown as one that does not")
	require.Contains(t, w.status("one").Trouble(), "cannot be parked in p/x.dead, which is down: ")
	require.LessOrEqual(t, w.store.Site("a").Committed("x", "mqferry-one", 0), 3)
	w.store.Site("p").Up()
	w.arrives("b", "y", 9)
	w.await("p", func() bool { return w.store.Site("p").Count("x.dead") == 1 })
	require.NoError(t, w.end())
	require.Equal(t, 10, w.store.Site("a").Committed("x", "mqferry-one", 0))
	require.Equal(t, 1, w.store.Site("p").Count("x.dead"))
}

func TestAStopParksNothingHealthyAndLosesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		options string
		err     error
		down    bool
	}{
		"while it is tried again":                      {", retry: {initial_interval: 1h, max_interval: 1h}", handlers.Refused(errors.New("no")), false},
		"while it is parked in a queue that is down":   {", poison: {datacenter: p}", handlers.Permanent(errors.New("no")), true},
		"while it is refused by the poison queue, too": {", poison: {datacenter: p}", handlers.Permanent(errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := policed(t, test.options)
			attempts := w.judged(3, repeat(test.err, 99)...)
			w.store.Site("p").OnPublish(func(string, *record.Record, int) memory.Verdict {
				return memory.Refuse(handlers.Refused(errors.New("no")))
			})
			w.run()
			require.Eventually(t, func() bool { return w.status("one").Phase == router.Running }, patience, time.Millisecond)
			if test.down {
				w.store.Site("p").Down()
			}
			w.produce("a", "x", 0, 10)
			require.Eventually(t, func() bool { return attempts.Load() > 0 }, patience, time.Millisecond)
			began := time.Now()
			_ = w.end()
			require.Less(t, time.Since(began), 8*time.Second, "shutdown_timeout, and a grace of 5 s")
			require.LessOrEqual(t, w.store.Site("a").Committed("x", "mqferry-one", 0), 3)
			require.Zero(t, w.store.Site("a").Count("x.poison"))
			require.Zero(t, w.store.Site("p").Count("x.poison"))
		})
	}
}

// mix is a middleware for tests: a function for each message.
func mix(name string, f func(*message.Message) error) router.Option {
	return router.WithMiddleware(name, middleware.New(
		func() struct{} { return struct{}{} },
		func(struct{}, middleware.Settings) (message.HandlerMiddleware, error) {
			return func(next message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					if err := f(msg); err != nil {
						return nil, err
					}
					return next(msg)
				}
			}, nil
		},
	))
}

func TestEachAttemptSeesTheMessageAsItCame(t *testing.T) {
	var tries atomic.Int64
	w := policed(t, ", middleware: [count]", mix("count", func(msg *message.Message) error {
		msg.Metadata.Set("tries", msg.Metadata.Get("tries")+"x")
		msg.Payload = append([]byte("changed "), msg.Payload...)
		if tries.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	}))
	w.produce("a", "x", 0, 1)
	w.run()
	w.arrives("b", "y", 1)
	require.NoError(t, w.end())
	got := w.store.Site("b").Messages("y")[0]
	require.Equal(t, "changed 0", string(got.Value))
	require.Equal(t, "x", string(got.Headers[0].Value))
}

func TestAServiceThatIsDownIsWaitedForWithoutCounting(t *testing.T) {
	var tries atomic.Int64
	w := policed(t, ", middleware: [look]", mix("look", func(*message.Message) error {
		if tries.Add(1) < 20 {
			return handlers.Unavailable(errors.New("the service is down"))
		}
		return nil
	}))
	w.produce("a", "x", 0, 5)
	w.run()
	w.arrives("b", "y", 5)
	require.NoError(t, w.end())
	require.Equal(t, upTo(5), w.values("b", "y"))
	require.Zero(t, w.store.Site("a").Count("x.poison"))
}

func TestAMiddlewareThatPanicsIsParkedWithAShortReason(t *testing.T) {
	w := policed(t, ", middleware: [ouch]", mix("ouch", func(msg *message.Message) error {
		if string(msg.Payload) == "2" {
			panic("ouch")
		}
		return nil
	}))
	w.produce("a", "x", 0, 5)
	w.run()
	w.arrives("b", "y", 4)
	w.await("a", func() bool { return w.store.Site("a").Count("x.poison") == 1 })
	require.NoError(t, w.end())
	_, why, _ := middleware.Unparked(w.store.Site("a").Messages("x.poison")[0])
	require.Equal(t, `route "one": a middleware panicked: ouch`, why[middleware.PoisonReason])
	require.Equal(t, "3", why[middleware.PoisonAttempts])
}

func TestMiddlewareThatTakesTooLongIsOneAttempt(t *testing.T) {
	w := policed(t, ", middleware: [slow], timeout: 5ms", mix("slow", func(msg *message.Message) error {
		if string(msg.Payload) == "1" {
			<-msg.Context().Done()
			return msg.Context().Err()
		}
		if string(msg.Payload) == "2" { // It does not look at the context.
			<-time.After(50 * time.Millisecond)
		}
		return nil
	}))
	w.produce("a", "x", 0, 4)
	w.run()
	w.arrives("b", "y", 2)
	w.await("a", func() bool { return w.store.Site("a").Count("x.poison") == 2 })
	require.NoError(t, w.end())
	require.Equal(t, []int{0, 3}, w.values("b", "y"))
	_, why, _ := middleware.Unparked(w.store.Site("a").Messages("x.poison")[0])
	require.Contains(t, why[middleware.PoisonReason], "took longer than its timeout of 5ms")
}

func TestMiddlewareRunsInOrderWithAConcurrencyOfOne(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		var mu sync.Mutex
		var seen []string
		inside, most := 0, 0
		w := policed(t, ", middleware: [watch], concurrency: "+strconv.Itoa(concurrency), mix("watch", func(msg *message.Message) error {
			mu.Lock()
			inside++
			most = max(most, inside)
			seen = append(seen, string(msg.Payload))
			mu.Unlock()
			<-time.After(time.Millisecond / 4)
			mu.Lock()
			inside--
			mu.Unlock()
			return nil
		}))
		w.produce("a", "x", 0, 500)
		w.run()
		w.arrives("b", "y", 500)
		require.NoError(t, w.end())
		require.Equal(t, upTo(500), w.values("b", "y"))
		require.LessOrEqual(t, most, concurrency)
		require.Equal(t, concurrency > 1, most > 1, "as many at once as may be")
		if concurrency == 1 {
			for i, s := range seen {
				require.Equal(t, strconv.Itoa(i), s)
			}
		}
	}
}

func TestAMessageOverTheLimitIsParkedAtOnce(t *testing.T) {
	w := policed(t, ", max_message_bytes: 1KiB")
	w.produce("a", "x", 0, 3)
	w.store.Site("a").Produce("x", 0, &record.Record{Value: make([]byte, 1025)}, &record.Record{Value: make([]byte, 1024)})
	w.run()
	w.arrives("b", "y", 4)
	w.await("a", func() bool { return w.store.Site("a").Count("x.poison") == 1 })
	require.NoError(t, w.end())
	_, why, _ := middleware.Unparked(w.store.Site("a").Messages("x.poison")[0])
	require.Equal(t, "the message is too large: 1025 bytes, and max_message_bytes is 1KiB", why[middleware.PoisonReason])
	require.Equal(t, "1", why[middleware.PoisonAttempts])
}

func TestTheThrottleBoundsTheRateAndKeepsTheOrder(t *testing.T) {
	w := policed(t, ", throttle: {messages_per_second: 1000, burst: 0.01}")
	w.produce("a", "x", 0, 300)
	began := time.Now()
	w.run()
	w.arrives("b", "y", 300)
	require.GreaterOrEqual(t, time.Since(began), 280*time.Millisecond)
	require.NoError(t, w.end())
	require.Equal(t, upTo(300), w.values("b", "y"))
}

func TestAStopDoesNotWaitForTheThrottle(t *testing.T) {
	w := policed(t, ", throttle: {bytes_per_second: 1B, burst: 1}")
	w.produce("a", "x", 0, 100)
	w.run()
	w.arrives("b", "y", 1)
	began := time.Now()
	require.NoError(t, w.end())
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestAPoisonQueueNeedNotBeMade(t *testing.T) {
	_, err := router.Parse("test.yml", []byte(`
datacenters: {a: {kafka: {brokers: "127.0.0.1:9092"}}}
routes: [{name: one, from: a/x, to: a/y, poison: {create: false}}]
`))
	require.NoError(t, err)
}

func TestMistakesInPoliciesAreFoundByTheLoader(t *testing.T) {
	_, err := router.Parse("test.yml", []byte(`
datacenters: {a: {memory: {}}}
routes:
  - {name: r0, from: a/x, to: a/y, retry: {max_attempts: -1, multiplier: 0.5, jitter: 2, initial_interval: 1m}}
  - {name: r1, from: a/x, to: a/y, poison: on}
  - {name: r2, from: a/x, to: a/y, poison: {datacenter: b}}
  - {name: r3, from: a/x, to: a/y, poison: {topic: "{key}"}}
  - {name: r4, from: a/x, to: a/y, poison: {topic: x}}
  - {name: r5, from: a/x, to: a/y, poison: {lane: 1}}
  - {name: r6, from: a/x, to: a/y, poison: off, on_capacity: park}
  - {name: r7, from: a/x, to: a/y, on_refused: drop}
  - {name: r8, from: a/x, to: a/y, throttle: {burst: 0}}
  - {name: r9, from: a/x, to: a/y, concurrency: -1, timeout: 5}
  - {name: r10, from: a/x, to: a/y, max_message_bytes: much}
`))
	for _, want := range []string{
		`routes[0].retry.max_attempts: -1 is negative`, `routes[0].retry.multiplier: 0.5 is less than 1`,
		`routes[0].retry.jitter: 2 is not between 0 and 1`, `routes[0].retry.max_interval: 30s is less than the initial_interval of 1m`,
		`routes[1].poison: "on" is neither "off" nor a mapping`,
		`routes[2].poison.datacenter: data center "b" is not defined`,
		`routes[3].poison.topic: "{key}" has a placeholder other than {topic}`,
		`routes[4].poison.topic: "x" is an end of the route itself`,
		`routes[5].poison: unknown key "lane"`,
		`routes[6].on_capacity: park needs a poison queue, and poison is off`,
		`routes[7].on_refused: "drop" is neither "park" nor "hold"`,
		`routes[8].throttle: limits nothing`, `routes[8].throttle.burst: 0 is not more than 0 seconds`,
		`routes[9].concurrency: -1 is negative`, `routes[9].timeout: "5" has no unit`,
		`routes[10].max_message_bytes: "much" is not a size`,
	} {
		require.ErrorContains(t, err, want)
	}
}
