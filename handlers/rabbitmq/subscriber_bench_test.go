package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration/brokers"
)

// BenchmarkSource reads a queue of 1 KB messages, with the bare client and into memory.
func BenchmarkSource(b *testing.B) {
	const n = 50_000
	bare := func(w *well) {
		w.channel(func(ch *amqp.Channel) {
			require.NoError(w, ch.Qos(w.source.Window, 0, false))
			deliveries, err := ch.Consume(w.in, "", false, true, false, false, nil)
			require.NoError(w, err)
			for i := 1; i <= n; i++ {
				d := <-deliveries
				if i%(w.source.Window/4) == 0 || i == n {
					require.NoError(w, d.Ack(true))
				}
			}
		})
	}
	route := func(w *well) {
		f := w.flow()
		w.settled(n)
		f.stop()
	}
	for _, kind := range []string{"classic", "quorum"} {
		for name, read := range map[string]func(*well){"bare": bare, "route": route} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				var spent time.Duration
				for range b.N {
					w := newWell(b, brokers.RabbitMQ(b, "a").URL())
					w.source.Window = 4096
					w.declare(amqp.Table{"x-queue-type": kind})
					w.produceSized(0, n, 1000)
					began := time.Now()
					read(w)
					spent += time.Since(began)
				}
				b.ReportMetric(float64(n*b.N)/spent.Seconds(), "msg/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
