package router_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
)

// BenchmarkChain carries messages of 1 KB from memory to memory through everything that a route has: the config, the Watermill router, the
// whole chain and the relay. An op is a message.
//
// "bare" is the relay alone in a Watermill router, without a chain; "slow" has a middleware of the user's that takes 5 ms for each message, and a window of 4096.
func BenchmarkChain(b *testing.B) {
	for _, lanes := range []int{1, 4} {
		for name, options := range map[string]string{
			"bare": "", "default": "",
			"everything": ", max_message_bytes: 1MiB, timeout: 5s, concurrency: 1000, middleware: [none], deduplicate: {by: header.none}, throttle: {messages_per_second: 1e9}",
			"slow":       ", middleware: [slow], window: 4096",
		} {
			b.Run(fmt.Sprintf("%s/lanes=%d", name, lanes), func(b *testing.B) {
				store := memory.New()
				var run func(context.Context) error
				if name == "bare" {
					run = bareRoute(b, store, lanes)
				} else {
					run = memoryRoute(b, store, lanes, options).Run
				}
				site, perLane := store.Site("to"), max(b.N/lanes, 1)
				message := &record.Record{ID: "an-id", Key: []byte("key"), Value: make([]byte, 1024), Headers: []record.Header{{Key: "kind", Value: []byte("order")}}}
				store.Site("from").Generate("orders", lanes, perLane, func(int, int) *record.Record { return message })
				ctx, stop := context.WithCancel(b.Context())
				defer stop()
				done := make(chan error, 1)
				b.ReportAllocs()
				b.ResetTimer()
				go func() { done <- run(ctx) }()
				require.NoError(b, site.Await(ctx, func() bool { return site.Count("orders") == perLane*lanes }))
				b.StopTimer()
				b.ReportMetric(float64(perLane*lanes)/b.Elapsed().Seconds(), "msg/s")
				stop()
				require.NoError(b, within(b, 10*time.Second, done))
			})
		}
	}
}

func memoryRoute(t testing.TB, store *memory.Store, lanes int, options string) *router.Router {
	t.Helper()
	opts := []router.Option{
		router.WithBroker("store", store.Broker()),
		mix("none", func(*message.Message) error { return nil }),
		mix("slow", func(*message.Message) error { time.Sleep(5 * time.Millisecond); return nil }),
	}
	cfg, err := router.Parse("bench.yml", []byte(fmt.Sprintf(`
datacenters:
  from: {store: {}}
  to: {store: {}}
routes:
  - {name: orders, from: from/orders, to: {datacenter: to, topic: orders, keep: false, lanes: %d}%s}
`, lanes, options)), opts...)
	require.NoError(t, err)
	r, err := router.New(cfg, opts...)
	require.NoError(t, err)
	return r
}

// bareRoute is what a route is without its chain.
func bareRoute(b *testing.B, store *memory.Store, lanes int) func(context.Context) error {
	b.Helper()
	open := func(name string) handlers.Conn {
		dc, err := store.Broker().DataCenter(config.Raw{})
		require.NoError(b, err)
		conn, err := dc.Open(b.Context(), handlers.Settings{DataCenter: name})
		require.NoError(b, err)
		return conn
	}
	destination := handlers.Destination{DataCenter: "to", Topic: "orders", Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil)}
	publisher, err := open("to").Publisher(destination, memory.DestinationConfig{Lanes: lanes})
	require.NoError(b, err)
	subscriber, err := open("from").Subscriber(handlers.Source{DataCenter: "from", Topic: "orders", Group: "g", Window: config.DefaultWindow}, memory.SourceConfig{})
	require.NoError(b, err)
	w, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(b, err)
	w.AddConsumerHandler("bare", "orders", subscriber, handlers.NewRelay(destination, publisher, true).Handle)
	return func(ctx context.Context) error { return errors.Join(w.Run(ctx), publisher.Close()) }
}

func within[T any](t testing.TB, d time.Duration, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(d):
		t.Fatalf("nothing came within %v", d)
		panic("unreachable")
	}
}
