package router_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
)

// BenchmarkChain carries messages of 1 KB from memory to memory through everything that a route has: the config, the Watermill router, the
// whole chain and the relay. An op is a message.
func BenchmarkChain(b *testing.B) {
	for _, lanes := range []int{1, 4} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			store := memory.New()
			r, site := memoryRoute(b, store, lanes)
			perLane := max(b.N/lanes, 1)
			message := &record.Record{ID: "an-id", Key: []byte("key"), Value: make([]byte, 1024), Headers: []record.Header{{Key: "kind", Value: []byte("order")}}}
			store.Site("from").Generate("orders", lanes, perLane, func(int, int) *record.Record { return message })
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			done := make(chan error, 1)
			b.ReportAllocs()
			b.ResetTimer()
			go func() { done <- r.Run(ctx) }()
			require.NoError(b, site.Await(ctx, func() bool { return site.Count("orders") == perLane*lanes }))
			b.StopTimer()
			b.ReportMetric(float64(perLane*lanes)/b.Elapsed().Seconds(), "msg/s")
			stop()
			require.NoError(b, within(b, 10*time.Second, done))
		})
	}
}

func memoryRoute(t testing.TB, store *memory.Store, lanes int) (*router.Router, *memory.Site) {
	t.Helper()
	broker := router.WithBroker("store", store.Broker())
	cfg, err := router.Parse("bench.yml", []byte(fmt.Sprintf(`
datacenters:
  from: {store: {}}
  to: {store: {}}
routes:
  - {name: orders, from: from/orders, to: {datacenter: to, topic: orders, keep: false, lanes: %d}}
`, lanes)), broker)
	require.NoError(t, err)
	r, err := router.New(cfg, broker)
	require.NoError(t, err)
	return r, store.Site("to")
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
