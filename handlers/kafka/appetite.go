package kafka

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// concurrentFetches is how many answers to fetches the client holds at most.
	concurrentFetches = 2
	// unknownRatio is how far batches are taken to expand before any was read.
	unknownRatio = 32
	// leastFetch is the least that is asked for; Kafka gives at least one batch in any case.
	leastFetch = 4 << 10
)

// appetite decides how much is asked for in one fetch. What fills the memory is the size after decompression, and what Kafka counts is the size
// before: so what is asked for follows how far the batches expanded lately.
type appetite struct {
	all, one     int64 // What an answer, and a partition in it, may hold after decompression.
	read, packed atomic.Int64
	ratio        float64
}

// newAppetite divides a quarter of a route's bytes: half for the answers in the client, half for what the lanes were offered.
func newAppetite(routeBytes int64, partitions int) *appetite {
	quarter := max(routeBytes/4, 256<<10)
	all := min(quarter/2/concurrentFetches, 16<<20)
	return &appetite{
		all:   all,
		one:   max(min(all, 2*all/int64(max(partitions, 1))), min(all, 64<<10)),
		ratio: unknownRatio,
	}
}

// OnFetchBatchRead is called by the client for each batch.
func (a *appetite) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	a.read.Add(int64(m.UncompressedBytes))
	a.packed.Add(int64(m.CompressedBytes))
}

// limits is what to ask for.
func (a *appetite) limits() (all, one int32) {
	return int32(max(float64(a.all)/a.ratio, leastFetch)), int32(max(float64(a.one)/a.ratio, leastFetch))
}

// adjust follows what was read since the last time: at once when it expands more, and slowly when it expands less.
func (a *appetite) adjust(client *kgo.Client) {
	read, packed := a.read.Swap(0), a.packed.Swap(0)
	if read == 0 || packed == 0 {
		return
	}
	now := max(float64(read)/float64(packed), 1)
	was := a.ratio
	a.ratio = max(now, 0.8*was+0.2*now)
	if a.ratio != was {
		client.UpdateFetchMaxBytes(a.limits())
	}
}
