package kafka_test

import (
	"bytes"
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/record"
)

// refuse answers the produce requests that match with an error for all of their batches.
func (w *world) refuse(code int16, match func(*kmsg.ProduceRequest) bool) {
	w.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		request := r.(*kmsg.ProduceRequest)
		if !match(request) {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range request.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			response.Topics = append(response.Topics, rt)
		}
		return response, nil, true
	})
}

// records tells how many records the smallest batch has, and what is in all of them.
func records(r *kmsg.ProduceRequest) (smallest int, bytes []byte) {
	smallest = math.MaxInt
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			var b kmsg.RecordBatch
			if b.ReadFrom(p.Records) == nil {
				smallest = min(smallest, int(b.NumRecords))
				bytes = append(bytes, b.Records...)
			}
		}
	}
	return smallest, bytes
}

func TestBatchesThatFailForNobodysFaultAreSentAgainInOrderOnce(t *testing.T) {
	const lanes, n = 4, 5000
	w := newWorld(t, kfake.SeedTopics(3, "out"))
	var requests, refused atomic.Int64
	w.refuse(kerr.InvalidRecord.Code, func(r *kmsg.ProduceRequest) bool {
		smallest, _ := records(r)
		fail := requests.Add(1)%5 == 3 && smallest > 1 // One alone would rightly be found guilty.
		if fail {
			refused.Add(1)
		}
		return fail
	})
	f := newFerry(t, w.address(), "out")
	f.send(lanes, 0, n, 100)
	f.settled(lanes, n)
	require.Empty(t, f.parked)
	require.Positive(t, refused.Load())
	t.Logf("%d of %d requests were refused", refused.Load(), requests.Load())
	once(t, arrived(t, w.address(), "out"), lanes, n)
}

func TestOnlyTheRecordAtFaultIsRefused(t *testing.T) {
	const lanes, n = 2, 2048
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	w.refuse(kerr.InvalidRecord.Code, func(r *kmsg.ProduceRequest) bool {
		_, b := records(r)
		return bytes.Contains(b, []byte("1/777/")) || bytes.Contains(b, []byte("0/2000/"))
	})
	f := newFerry(t, w.address(), "out")
	began := time.Now()
	f.send(lanes, 0, n, 100)
	f.settled(lanes, n)
	require.Less(t, time.Since(began), 20*time.Second)
	require.ElementsMatch(t, []string{"1/777", "0/2000"}, trimmed(f.parked))
	got := arrived(t, w.address(), "out")
	requireOnce(t, got, lanes, n, f.parked)
}

func TestNothingOfALaneIsSentBehindTheRecordAtFault(t *testing.T) {
	const n = 64
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	w.refuse(kerr.InvalidRecord.Code, func(r *kmsg.ProduceRequest) bool {
		_, b := records(r)
		return bytes.Contains(b, []byte("0/20/"))
	})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	f := newFerry(t, w.address(), "out", func(_ *handlers.Destination, d *kafka.DestinationConfig) {
		d.Linger = config.Duration(300 * time.Millisecond) // So that all are one batch.
	})
	t.Cleanup(open)
	f.gate = gate
	f.send(2, 0, n, 100)
	arrives := func(lane, count int) {
		require.Eventually(t, func() bool { return len(arrived(t, w.address(), "out")[lane]) >= count }, patience, 10*time.Millisecond)
	}
	arrives(0, 20)
	arrives(1, n)
	f.site.Produce("in", 1, &record.Record{Value: payload(1, n, 100)}) // Comes after everything that the search sends.
	arrives(1, n+1)
	require.Len(t, arrived(t, w.address(), "out")[0], 20, "only what came before it")
	open()
	f.settled(2, n)
	require.Equal(t, []string{"0/20"}, trimmed(f.parked))
	require.Len(t, arrived(t, w.address(), "out")[0], n-1)
}

func trimmed(payloads []string) []string {
	short := make([]string, len(payloads))
	for i, p := range payloads {
		short[i] = strings.TrimRight(p, "x/")
	}
	return short
}

// requireOnce is once, with the parked ones missing.
func requireOnce(t *testing.T, got map[int][]int, lanes, n int, parked []string) {
	t.Helper()
	once(t, got, lanes, n, trimmed(parked)...)
}

func TestARecordOverTheLimitIsRefusedBeforeItIsSent(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	w.limit(t, "out", "20000")
	f := newFerry(t, w.address(), "out")
	f.send(1, 0, 1000, 1000)
	f.site.Produce("in", 0, &record.Record{Value: payload(0, 1000, 30000)})
	f.send(1, 1001, 2000, 1000)
	f.settled(1, 2000)
	require.Equal(t, []string{"0/1000"}, trimmed(f.parked))
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(f.errs[0]))
	require.ErrorIs(t, f.errs[0], kerr.MessageTooLarge)
	require.ErrorContains(t, f.errs[0], "max.message.bytes=20000")
	requireOnce(t, arrived(t, w.address(), "out"), 1, 2000, f.parked)
}

func TestALimitThatIsLoweredWhileRunningRefusesOnlyWhatIsOverIt(t *testing.T) {
	const n = 6000
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	f := newFerry(t, w.address(), "out")
	f.send(1, 0, 100, 1000)
	f.settled(1, 100)
	w.limit(t, "out", "20000")
	f.send(1, 100, 3000, 1000)
	f.site.Produce("in", 0, &record.Record{Value: payload(0, 3000, 30000)})
	f.send(1, 3001, n, 1000)
	f.settled(1, n)
	require.Equal(t, []string{"0/3000"}, trimmed(f.parked))
	requireOnce(t, arrived(t, w.address(), "out"), 1, n, f.parked)
}

func TestBatchesThatAreTooLargeForNobodysFaultBecomeSmallerForGood(t *testing.T) {
	const n = 4000
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	var refused atomic.Int64
	w.refuse(kerr.MessageTooLarge.Code, func(r *kmsg.ProduceRequest) bool {
		large := len(r.Topics[0].Partitions[0].Records) > 50_000
		if large {
			refused.Add(1)
		}
		return large
	})
	f := newFerry(t, w.address(), "out")
	f.send(1, 0, n, 1000)
	f.settled(1, n)
	first := refused.Load()
	require.Positive(t, first)
	f.send(1, n, 2*n, 1000)
	f.settled(1, 2*n)
	require.Empty(t, f.parked)
	require.LessOrEqual(t, refused.Load(), first+5, "the cap is not kept")
	once(t, arrived(t, w.address(), "out"), 1, 2*n)
}

func TestAKeylessRecordIsRefusedByACompactedTopic(t *testing.T) {
	w := newWorld(t)
	admin := kadm.NewClient(newClient(t, w.address()))
	_, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": ptr("compact")}, "out")
	require.NoError(t, err)
	f := newFerry(t, w.address(), "out")
	f.site.Produce("in", 0, &record.Record{Key: []byte("k"), Value: []byte("0/0")}, &record.Record{Value: []byte("0/1")}, &record.Record{Key: []byte{}, Value: []byte("0/2")})
	f.settled(1, 3)
	require.Equal(t, []string{"0/1"}, f.parked)
	require.ErrorContains(t, f.errs[0], "compacted")
}

func TestAnOutageRepeatsNothingSinceTheProducerIsIdempotent(t *testing.T) {
	const lanes, n = 3, 20000
	w := newWorld(t, kfake.SeedTopics(3, "out"))
	f := newFerry(t, w.address(), "out")
	f.send(lanes, 0, n, 100)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		was := f.site.Committed("in", "g", 0)
		require.NoError(t, f.site.Await(ctx, func() bool { return f.site.Committed("in", "g", 0) > was }))
		cancel()
		w.outage(t)()
	}
	f.settled(lanes, n)
	require.Empty(t, f.parked)
	once(t, arrived(t, w.address(), "out"), lanes, n)
}

func TestADestinationTopicMadeAgainIsFoundAgain(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(2, "out"))
	f := newFerry(t, w.address(), "out", func(_ *handlers.Destination, c *kafka.DestinationConfig) { c.Partitions = 3 })
	f.send(2, 0, 100, 10)
	f.settled(2, 100)
	admin := kadm.NewClient(newClient(t, w.address()))
	_, err := admin.DeleteTopic(t.Context(), "out")
	require.NoError(t, err)
	f.send(2, 100, 3000, 10)
	f.settled(2, 3000)
	require.Empty(t, f.parked)
	require.EqualValues(t, 1, f.destination.Meter.Recreated.Load())
	got := arrived(t, w.address(), "out")
	for l := range 2 {
		require.Len(t, got[l], 2900)
		require.IsIncreasing(t, got[l])
	}
	require.Equal(t, 3, len(w.PartitionInfos("out")))
}

func TestADestinationThatDiesWhileItIsIdleIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	f := newFerry(t, w.address(), "out")
	f.send(1, 0, 1, 10)
	f.settled(1, 1)
	end := w.outage(t)
	up := func() bool { up, _, _ := f.destination.Health.State(); return up }
	require.Eventually(t, func() bool { return !up() }, patience, 10*time.Millisecond)
	end()
	require.Eventually(t, up, patience, 10*time.Millisecond)
}

func ptr(s string) *string { return &s }

func (w *world) limit(t *testing.T, topic, bytes string) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, w.address()))
	responses, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}, topic)
	require.NoError(t, err)
	require.NoError(t, responses[0].Err)
}

func TestASearchDoesNotWaitForARequestThatKafkaNeverAnswers(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(1, "out"))
	var requests atomic.Int64
	w.refuse(kerr.InvalidRecord.Code, func(*kmsg.ProduceRequest) bool { return requests.Add(1) == 2 })
	w.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		return nil, nil, requests.Load() == 3 // The first group of the search.
	})
	f := newFerry(t, w.address(), "out", func(_ *handlers.Destination, d *kafka.DestinationConfig) {
		d.Linger = config.Duration(300 * time.Millisecond) // So that all are one batch.
	})
	f.send(1, 0, 1, 10)
	f.settled(1, 1)
	began := time.Now()
	f.send(1, 1, 1000, 10)
	f.settled(1, 1000)
	require.Less(t, time.Since(began), 10*time.Second)
	require.Empty(t, f.parked)
	once(t, arrived(t, w.address(), "out"), 1, 1000)
}
