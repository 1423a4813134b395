package rabbitmq_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMemoryIsBoundedByBytesWhileTheDestinationIsDown(t *testing.T) {
	const (
		n, size = 2000, 200_000
		window  = 64 << 20
	)
	for kind, arguments := range both() {
		t.Run(kind, func(t *testing.T) {
			w := newWell(t, brokers.RabbitMQ(t, "a").URL())
			w.config = quick
			w.source.Window, w.source.Bytes, w.source.Budget = 8192, window, lane.NewBudget(window)
			w.declare(arguments)
			w.produceSized(0, n, size)
			before := heap()
			f := w.flow()
			w.destination.Down()
			w.eventually(func() bool { return w.source.Meter.Fetched.Load()*size > window }, "the window is not filled")
			most := heap()
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for range 300 { // Several heartbeats.
				<-ticker.C
				most = max(most, heap())
			}
			require.Less(t, most-before, int64(3*window))
			require.Less(t, w.source.Meter.Fetched.Load(), int64(n), "there was nothing to hold back")
			require.Zero(t, w.source.Meter.Reconnects.Load(), "the connection did not outlive the gate")
			w.destination.Up()
			w.last(n)
			f.stop()
			w.requireArrived(n, 0)
			require.Zero(t, w.left())
		})
	}
}

// heap is what lies in memory, garbage included.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
