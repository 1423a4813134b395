package router_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a router between the sites of a memory store.
type world struct {
	testing.TB
	store  *memory.Store
	router *router.Router
	stop   context.CancelFunc
	done   chan error
	log    *logBook
}

const twoRoutes = `
shutdown_timeout: 1s
datacenters:
  a: {store: {}}
  b: {store: {}}
  c: {store: {}}
routes:
  - {name: one, from: a/orders, to: b/orders}
  - {name: two, from: a/orders, to: c/orders}
`

func newWorld(t testing.TB, text string, opts ...router.Option) *world {
	t.Helper()
	w := &world{TB: t, store: memory.New(), log: &logBook{}}
	opts = append(opts, router.WithBroker("store", w.store.Broker()), router.WithLogger(slog.New(slog.NewTextHandler(w.log, nil))))
	cfg, err := router.Parse("test.yml", []byte(text), opts...)
	require.NoError(t, err)
	w.router, err = router.New(cfg, opts...)
	require.NoError(t, err)
	return w
}

func (w *world) run() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, make(chan error, 1)
	go func() { w.done <- w.router.Run(ctx) }()
	w.Cleanup(stop)
}

func (w *world) end() error {
	w.Helper()
	w.stop()
	return within(w.TB, patience, w.done)
}

func (w *world) produce(site, topic string, from, to int) {
	for i := from; i < to; i++ {
		w.store.Site(site).Produce(topic, 0, &record.Record{Value: []byte(strconv.Itoa(i))})
	}
}

func (w *world) arrives(site, topic string, n int) {
	w.Helper()
	w.await(site, func() bool { return len(w.store.Site(site).Messages(topic)) >= n })
}

func (w *world) await(site string, reached func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(w, w.store.Site(site).Await(ctx, reached))
}

// values are what a topic holds, in order.
func (w *world) values(site, topic string) []int {
	var all []int
	for _, r := range w.store.Site(site).Messages(topic) {
		n, err := strconv.Atoi(string(r.Value))
		require.NoError(w, err)
		all = append(all, n)
	}
	return all
}

func (w *world) status(route string) router.Status {
	for _, s := range w.router.Status() {
		if s.Route == route {
			return s
		}
	}
	w.Fatalf("no route %q", route)
	return router.Status{}
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// logBook is a log that may be read while it is written.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestRoutesCarryEverythingInOrderAndStopCleanly(t *testing.T) {
	w := newWorld(t, twoRoutes)
	w.produce("a", "orders", 0, 5000)
	w.run()
	w.arrives("b", "orders", 5000)
	w.arrives("c", "orders", 5000)
	require.NoError(t, w.end())
	require.Equal(t, upTo(5000), w.values("b", "orders"))
	require.Equal(t, upTo(5000), w.values("c", "orders"))
	require.Equal(t, 5000, w.store.Site("a").Committed("orders", "mqferry-one", 0))
	require.Equal(t, 5000, w.store.Site("a").Committed("orders", "mqferry-two", 0))
	require.Equal(t, router.Stopped, w.status("one").Phase)
	require.NotContains(t, w.log.String(), "level=ERROR")
	require.NotContains(t, w.log.String(), "level=WARN")
}

func TestABrokerThatIsDownAtStartIsWaitedForWhileOtherRoutesRun(t *testing.T) {
	w := newWorld(t, twoRoutes)
	w.store.Site("b").Down()
	w.produce("a", "orders", 0, 100)
	w.run()
	w.arrives("c", "orders", 100)
	one := w.status("one")
	require.Equal(t, router.Waiting, one.Phase)
	require.Contains(t, one.Trouble(), "b/orders is not connected")
	require.Empty(t, w.status("two").Trouble())
	require.Zero(t, one.Meter.Fetched.Load(), "nothing is consumed before the destination is connected")
	w.store.Site("b").Up()
	w.arrives("b", "orders", 100)
	require.NoError(t, w.end())
}

func TestADestinationThatGoesDownIsHeldAndShown(t *testing.T) {
	w := newWorld(t, twoRoutes)
	w.produce("a", "orders", 0, 100)
	w.run()
	w.arrives("b", "orders", 100)
	w.store.Site("b").Down()
	w.produce("a", "orders", 100, 200)
	w.arrives("c", "orders", 200)
	require.Eventually(t, func() bool { return strings.Contains(w.status("one").Trouble(), "destination b/orders is down") }, patience, time.Millisecond)
	require.Empty(t, w.status("two").Trouble())
	w.store.Site("b").Up()
	w.arrives("b", "orders", 200)
	require.NoError(t, w.end())
	require.Equal(t, upTo(200), w.values("b", "orders"))
	require.Empty(t, w.status("one").Meter.Nacked.Load())
}

func TestAStopThatCannotSettleEverythingEndsInTimeAndSaysSo(t *testing.T) {
	w := newWorld(t, twoRoutes)
	w.store.Site("b").OnPublish(func(string, *record.Record, int) memory.Verdict { return memory.Delay(make(chan struct{})) })
	w.produce("a", "orders", 0, 100)
	w.run()
	w.arrives("c", "orders", 100)
	require.Eventually(t, func() bool { return w.status("one").InFlight() > 0 }, patience, time.Millisecond)
	started := time.Now()
	require.ErrorContains(t, w.end(), "not everything in flight was settled within shutdown_timeout (1s)")
	require.Less(t, time.Since(started), 6*time.Second)
	require.Zero(t, w.store.Site("a").Committed("orders", "mqferry-one", 0))
	require.Equal(t, 100, w.store.Site("a").Committed("orders", "mqferry-two", 0))
}

func TestAMessageThatIsRefusedHoldsItsRouteAndIsNamed(t *testing.T) {
	w := newWorld(t, twoRoutes+"defaults: {on_refused: hold, retry: {max_attempts: 1}}")
	w.store.Site("b").OnPublish(func(_ string, r *record.Record, _ int) memory.Verdict {
		if string(r.Value) == "50" {
			return memory.Refuse(handlers.Permanent(errors.New("too ugly")))
		}
		return memory.Confirm()
	})
	w.produce("a", "orders", 0, 100)
	w.run()
	w.arrives("c", "orders", 100)
	require.Eventually(t, func() bool {
		return strings.Contains(w.status("one").Trouble(), `lane "0" is held by a message that was refused`)
	}, patience, 5*time.Millisecond)
	require.Contains(t, w.status("one").Trouble(), "too ugly")
	w.store.Site("b").OnPublish(nil)
	w.await("a", func() bool { return w.store.Site("a").Committed("orders", "mqferry-one", 0) == 100 })
	require.NoError(t, w.end())
	require.ElementsMatch(t, upTo(100), w.values("b", "orders"))
}

func TestARouterRunsOnce(t *testing.T) {
	w := newWorld(t, twoRoutes)
	w.run()
	require.NoError(t, w.end())
	require.ErrorContains(t, w.router.Run(context.Background()), "runs once")
}

func TestABrokerNameIsTakenOnce(t *testing.T) {
	_, err := router.Parse("test.yml", []byte(twoRoutes), router.WithBroker("kafka", memory.New().Broker()))
	require.ErrorContains(t, err, `broker "kafka" is there already`)
}
