package rabbitmq_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// BenchmarkPublish carries messages of 1 KB from memory to a RabbitMQ.
func BenchmarkPublish(b *testing.B) {
	for name, delay := range map[string]time.Duration{"0ms": 0, "50ms": 50 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			broker := brokers.RabbitMQ(b, "b")
			link := broker.Link(b)
			link.Delay(delay)
			w := newWorld(b, broker.URLAt(link.Address()))
			w.window = 8192
			r := &record.Record{ID: "8d0d2f6c-1f0a-4f3e-9f6c-1f0a4f3e9f6c", Value: bytes.Repeat([]byte("x"), 1024)}
			w.site.Generate(memoryTopic, 1, b.N, func(int, int) *record.Record { return r })
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			route := w.start()
			w.settled(b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			route.stop()
			w.url = broker.URL()
			w.delete(w.out)
		})
	}
}
