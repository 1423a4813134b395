package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/record"
)

func rule(p kafka.Partition, sourcePartitions int) option {
	return func(d *handlers.Destination, c *kafka.DestinationConfig) {
		c.Partition = p
		d.SourcePartitions = func(context.Context) (int, error) { return sourcePartitions, nil }
	}
}

func TestKeysGoWhereTheJavaClientPutsThem(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(7, "out"))
	f := newFerry(t, w.address(), "out", rule(kafka.PartitionAuto, 3))
	reference := kgo.StickyKeyPartitioner(nil).ForTopic("out")
	for i := range 300 {
		key := []byte(fmt.Sprintf("%012d", i*i*7919))[12-i%13:]
		f.site.Produce("in", 0, &record.Record{Key: key, Value: payload(0, i, 0)})
	}
	f.settled(1, 300)
	all := contents(t, w.address(), "out")
	require.Len(t, all, 300)
	for _, r := range all {
		if len(r.Key) == 0 {
			continue // The reference treats an empty key as its own choice; the Java client hashes it.
		}
		require.EqualValues(t, reference.Partition(&kgo.Record{Key: r.Key}, 7), r.Partition, "key %q", r.Key)
	}
}

func TestALaneWithoutKeysStaysInOnePartition(t *testing.T) {
	for _, p := range []kafka.Partition{kafka.PartitionAuto, kafka.PartitionKey, kafka.PartitionSpread} {
		w := newWorld(t, kfake.SeedTopics(5, "out"))
		f := newFerry(t, w.address(), "out", rule(p, 3))
		f.send(8, 0, 200, 0)
		f.settled(8, 200)
		once(t, arrived(t, w.address(), "out"), 8, 200)
		where := map[string]map[int32]bool{}
		used := map[int32]bool{}
		for _, r := range contents(t, w.address(), "out") {
			l := string(r.Value[:1])
			if where[l] == nil {
				where[l] = map[int32]bool{}
			}
			where[l][r.Partition] = true
			used[r.Partition] = true
		}
		for l, partitions := range where {
			require.Len(t, partitions, 1, "lane %s with %s", l, p)
		}
		require.Greater(t, len(used), 1)
	}
}

func TestEqualPartitionsAreKept(t *testing.T) {
	for _, p := range []kafka.Partition{kafka.PartitionAuto, kafka.PartitionKeep} {
		w := newWorld(t, kfake.SeedTopics(4, "out"))
		f := newFerry(t, w.address(), "out", rule(p, 4))
		for l := range 4 {
			f.site.Produce("in", l, &record.Record{Key: []byte("same"), Value: payload(l, 0, 0)})
		}
		f.settled(4, 1)
		for _, r := range contents(t, w.address(), "out") {
			require.Equal(t, fmt.Sprintf("%d/0/", r.Partition), string(r.Value))
		}
	}
}

func TestKeepPublishesNothingWhileThePartitionsDiffer(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(4, "out"))
	f := newFerry(t, w.address(), "out", rule(kafka.PartitionKeep, 3))
	f.send(1, 0, 10, 0)
	require.Eventually(t, func() bool { return f.destination.Meter.Refused.Load() > 2 }, patience, time.Millisecond)
	_, _, err := f.destination.Health.State()
	require.ErrorContains(t, err, "has 4 partitions and the source 3")
	require.Empty(t, contents(t, w.address(), "out"))
	require.Empty(t, f.parked)
}
