package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWhatIsAskedForFollowsHowFarBatchesExpand(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	require.NoError(t, err)
	defer client.Close()
	a := newAppetite(64<<20, 4)
	read := func(packed, plain, times int) (all, one int32) {
		for range times {
			a.OnFetchBatchRead(kgo.BrokerMetadata{}, "in", 0, kgo.FetchBatchMetrics{CompressedBytes: packed, UncompressedBytes: plain})
			a.adjust(client)
		}
		require.EqualValues(t, client.OptValue(kgo.FetchMaxPartitionBytes), second(a.limits()))
		return a.limits()
	}
	all, one := a.limits()
	require.EqualValues(t, 4<<20/32, all)
	require.EqualValues(t, 2<<20/32, one)
	all, _ = read(1000, 1000, 100)
	require.InDelta(t, 4<<20, all, 10)
	all, _ = read(1000, 100_000, 1)
	require.InDelta(t, 4<<20/100, all, 10)
	all, _ = read(1000, 50_000, 1)
	require.InDelta(t, 4<<20/90, all, 10)
	all, one = read(10, 1_000_000, 1)
	require.EqualValues(t, leastFetch, all)
	require.EqualValues(t, leastFetch, one)
}

func second(_, b int32) int32 { return b }

func TestWhoTakesLanesAwayWaitsForThePollAndEndsIt(t *testing.T) {
	var mu sync.Mutex
	var turns turnstile
	turns.init(&mu)
	poll := turns.enter(t.Context())
	emptied := make(chan struct{})
	go func() {
		mu.Lock()
		defer mu.Unlock()
		turns.empty()
		close(emptied)
	}()
	within(t, poll.Done())
	select {
	case <-emptied:
		require.FailNow(t, "it did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	turns.leave()
	within(t, emptied)
	require.NoError(t, turns.enter(t.Context()).Err())
	turns.leave()
}
