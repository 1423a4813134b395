package redisstream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/redis/go-redis/v9"
)

// BenchmarkRoute carries messages of 1 KB from one Redis to another, through subscriber, relay and publisher.
func BenchmarkRoute(b *testing.B) {
	for name, delay := range map[string]time.Duration{"0ms": 0, "50ms": 50 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			source, destination := brokers.Redis(b, "a"), brokers.Redis(b, "b")
			link := destination.Link(b)
			link.Delay(delay)
			w := newWorld(b, source.Address(), destination.Address())
			w.to = link.Address()
			w.source.Window = 8192
			payload := strings.Repeat("x", 1024)
			for left := b.N; left > 0; left -= 1000 {
				pipeline := w.client.Pipeline()
				for range min(left, 1000) {
					pipeline.XAdd(b.Context(), &redis.XAddArgs{Stream: w.in, Values: []any{
						record.IDKey, "id", "metadata", "", "payload", payload,
					}})
				}
				if _, err := pipeline.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			stop := w.relay()
			w.settled(b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			stop()
		})
	}
}
