package handlers_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	benchLanes  = 4
	benchWindow = 8192
)

// benchRecord is a message of 1 KB as a broker would read it, with a key and two headers. The value is shared: it is not what is measured.
func benchRecord(value []byte) func(lane, position int) *record.Record {
	return func(lane, position int) *record.Record {
		r := &record.Record{
			Key: []byte("customer-4711"), Value: value,
			Headers: []record.Header{{Key: "content-type", Value: []byte("application/json")}, {Key: "trace", Value: []byte("0123456789abcdef")}},
			Source:  record.Source{DataCenter: "a", Topic: "in", Lane: strconv.Itoa(lane), Position: strconv.Itoa(position)},
		}
		r.ID = record.DeriveID(r.Source)
		return r
	}
}

// BenchmarkRelay carries messages from memory to memory through a Watermill router: the cost of everything but the brokers.
func BenchmarkRelay(b *testing.B) {
	for name, next := range map[string]func(lane, position int) *record.Record{
		"fresh records": benchRecord(make([]byte, 1024)),
		"one record":    sameRecord(benchRecord(make([]byte, 1024))(0, 0)),
	} {
		b.Run(name, func(b *testing.B) {
			r := newRoute(b)
			r.source.Window, r.patience = benchWindow, 5*time.Minute
			r.options.Keep = false
			each := b.N/benchLanes + 1
			r.from.Generate("in", benchLanes, each, next)
			b.ReportAllocs()
			b.ResetTimer()
			stop := r.run(r.relay().Handle)
			for lane := range benchLanes {
				r.committed(lane, each)
			}
			b.ReportMetric(float64(benchLanes*each)/b.Elapsed().Seconds(), "msg/s")
			b.StopTimer()
			stop()
		})
	}
	b.Run("in flight", func(b *testing.B) {
		b.ReportMetric(inFlight(b, 10_000), "inflight-B/msg") // A state, not a rate: once is enough.
		b.ReportMetric(0, "ns/op")
	})
}

func sameRecord(r *record.Record) func(lane, position int) *record.Record {
	return func(int, int) *record.Record { return r }
}

// inFlight measures the memory of a message that awaits its confirm, without the bytes that the window counts anyway.
func inFlight(b *testing.B, n int) float64 {
	r := newRoute(b)
	r.source.Window = n / benchLanes
	r.options.Keep = false
	next := benchRecord(make([]byte, 1024))
	r.from.Generate("in", benchLanes, n/benchLanes, next)
	gate := make(chan struct{})
	r.to.OnPublish(func(string, *record.Record, int) memory.Verdict { return memory.Delay(gate) })
	before := inUse()
	s := r.subscriber()
	stop := r.runWith(s, r.relay().Handle)
	eventually(b, func() bool {
		onWire := 0
		for _, state := range s.Lanes() {
			onWire += state.OnWire
		}
		return onWire == n
	})
	after := inUse()
	close(gate)
	for lane := range benchLanes {
		r.committed(lane, n/benchLanes)
	}
	stop()
	counted := next(0, 0).Size() - 1024
	return (after-before)/float64(n) - float64(counted)
}

func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
