package kafka_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/integration/brokers"
)

// spread fills the partitions of a topic with records that have keys, one half of them, and numbers.
func spread(t *testing.T, address, topic string, partitions, n int) {
	t.Helper()
	client := newClient(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var all []*kgo.Record
	for p := range partitions {
		for i := range n {
			r := &kgo.Record{Topic: topic, Partition: int32(p), Value: payload(p, i, 0)}
			if i%2 == 0 {
				r.Key = []byte(fmt.Sprintf("%d-%d", p, i%20))
			}
			all = append(all, r)
		}
	}
	require.NoError(t, client.ProduceSync(t.Context(), all...).FirstErr())
}

func TestPartitionsAreChosenByTheRuleBetweenRealTopics(t *testing.T) {
	const partitions, n = 4, 200
	address := brokers.Kafka(t, "a").Address()
	in := newTopic(t, address, partitions, nil)
	spread(t, address, in, partitions, n)
	kept := func(r *kgo.Record) int { return int(r.Value[0] - '0') }
	for _, test := range []struct {
		rule  kafka.Partition
		parts int
		where func(r *kgo.Record) int // -1: it depends on the lane.
	}{
		{kafka.PartitionAuto, partitions, kept},
		{kafka.PartitionKeep, partitions, kept},
		{kafka.PartitionAuto, 7, byKey(7)},
		{kafka.PartitionKey, partitions, byKey(partitions)},
		{kafka.PartitionSpread, 7, func(*kgo.Record) int { return -1 }},
	} {
		t.Run(fmt.Sprintf("%s into %d", test.rule, test.parts), func(t *testing.T) {
			out := newTopic(t, address, int32(test.parts), nil)
			conn := connect(t, address, "")
			x := newTransfer(t, conn, conn, in, out, func(r *trip) { r.out.Partition = test.rule })
			x.caughtUp(kadm.NewClient(newClient(t, address)))
			lanes := map[byte]int{}
			all := contents(t, address, out)
			require.Len(t, all, partitions*n)
			for _, r := range all {
				want := test.where(r)
				if want < 0 {
					lane := r.Value[0]
					if _, known := lanes[lane]; !known {
						lanes[lane] = int(r.Partition)
					}
					want = lanes[lane]
				}
				require.EqualValues(t, want, r.Partition, "%s with key %q", r.Value, r.Key)
			}
		})
	}
}

// byKey is where the Java client puts a record with a key.
func byKey(partitions int) func(*kgo.Record) int {
	reference := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return func(r *kgo.Record) int {
		if r.Key == nil {
			return -1
		}
		return reference.Partition(&kgo.Record{Key: r.Key}, partitions)
	}
}

func TestARealTopicIsReadFromATimeOn(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	in := newTopic(t, address, 2, nil)
	client := newClient(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	begin := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for i := range 100 { // Ten minutes apart, on both sides of the time; the second partition has nothing after it.
		r := &kgo.Record{Topic: in, Partition: int32(i % 2), Value: []byte(fmt.Sprint(i)), Timestamp: begin.Add(time.Duration(i-50) * 10 * time.Minute)}
		if i%2 == 1 {
			r.Timestamp = begin.Add(-time.Hour)
		}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	var start config.Start
	require.NoError(t, start.UnmarshalText([]byte("2026-01-31T08:00:00Z")))
	s := source(in)
	s.Group, s.Start = in, start
	var c catch
	m := newMember(t, address, "", s, c.add)
	c.await(t, 25)
	fill(t, address, in, 2, 1)
	c.await(t, 27)
	m.close()
	require.Equal(t, append(span(50)[25:], 50), c.offsets["0"])
	require.Equal(t, []int{50}, c.offsets["1"])
}

func TestABrokerThatDoesNotAnswerIsPassedOver(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := listener.Addr().String()
	require.NoError(t, listener.Close())
	address := brokers.Kafka(t, "a").Address()
	c, _, _ := kafka.DefaultConfig()
	c.Brokers = []string{dead, address}
	for _, client := range []kafka.Client{kafka.Pipelined, kafka.Watermill} {
		c.Client = client
		conn, err := open(t, c)
		require.NoError(t, err)
		in, out := newTopic(t, address, 1, nil), newTopic(t, address, 1, nil)
		x := newTransfer(t, conn, conn, in, out, nil)
		fill(t, address, in, 1, 10)
		arrives(t, kadm.NewClient(newClient(t, address)), out, 10)
		x.stop()
	}
	c.Brokers = []string{dead}
	_, err = open(t, c)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, "kafka broker "+dead)
}
