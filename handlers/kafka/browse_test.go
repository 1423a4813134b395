package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/middleware"
)

func newLot(t *testing.T, address, topic string) *brokertest.Lot {
	t.Helper()
	broker := handlers.NewBroker(func() (kafka.Config, kafka.SourceConfig, kafka.DestinationConfig) {
		c, s, d := kafka.DefaultConfig()
		c.Brokers = []string{address}
		return c, s, d
	}, kafka.Open)
	dc, err := broker.DataCenter(rawConfig())
	require.NoError(t, err)
	options, err := dc.PoisonOptions(config.Destination{})
	require.NoError(t, err)
	conn, err := dc.Open(t.Context(), handlers.Settings{DataCenter: "here"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return &brokertest.Lot{
		T: t, Conn: conn, Options: options,
		Destination: handlers.Destination{Route: "test", DataCenter: "here", Topic: topic},
	}
}

func parked(route string, first, end int) []*record.Record {
	return brokertest.Parked(record.Source{DataCenter: "there", Topic: "orders", Lane: "3"}, route, first, end)
}

func TestAPoisonTopicIsMadeCompactedAndListedWithoutBeingConsumed(t *testing.T) {
	const n = 5000
	address := brokers.Kafka(t, "a").Address()
	l := newLot(t, address, newTopicName())
	l.Park(parked("one", 0, n)...)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	configs, err := kadm.NewClient(newClient(t, address)).DescribeTopicConfigs(t.Context(), l.Destination.Topic)
	require.NoError(t, err)
	found := map[string]string{}
	for _, c := range configs[0].Configs {
		found[c.Key] = c.MaybeValue()
	}
	require.Equal(t, "compact", found["cleanup.policy"])
	require.Equal(t, "8388608", found["max.message.bytes"])
	l.Park(middleware.Parked(&record.Record{Value: make([]byte, 3<<20), Source: record.Source{DataCenter: "there", Position: "9"}}, "two", errors.New("too large")))
	b := l.Browse()
	require.Len(t, l.All(b), n+1)
}

func TestOnlyWhatIsRemovedIsGoneFromATopicThatTwoRoutesShare(t *testing.T) {
	const n = 3000
	l := newLot(t, brokers.Kafka(t, "a").Address(), newTopicName())
	l.Park(parked("one", 0, n)...)
	l.Park(parked("two", 0, n)...)
	b := l.Browse()
	require.NoError(t, b.Remove(t.Context(), l.Choose(l.All(b), "one", brokertest.Odd)))
	require.NoError(t, b.Remove(t.Context(), nil))
	require.NoError(t, b.Close())
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("two"))
}

func TestAMessageThatIsParkedAgainIsThereOnce(t *testing.T) {
	l := newLot(t, brokers.Kafka(t, "a").Address(), newTopicName())
	l.Park(parked("one", 0, 10)...)
	l.Park(parked("one", 3, 5)...)
	require.Equal(t, []int{0, 1, 2, 5, 6, 7, 8, 9, 3, 4}, l.List("one"))
	b := l.Browse()
	require.NoError(t, b.Remove(t.Context(), l.Choose(l.All(b), "one", func(n int) bool { return n == 3 })))
	require.Equal(t, []int{0, 1, 2, 5, 6, 7, 8, 9, 4}, l.List("one"))
	l.Park(parked("one", 3, 4)...)
	require.Equal(t, []int{0, 1, 2, 5, 6, 7, 8, 9, 4, 3}, l.List("one"))
}

func TestWhatIsReadFromAPoisonTopicIsWhole(t *testing.T) {
	l := newLot(t, brokers.Kafka(t, "a").Address(), newTopicName())
	at := time.UnixMilli(1_700_000_000_123)
	originals := []*record.Record{
		{ID: "full", Key: []byte{0, 255}, Value: []byte{1, 0, 2}, Time: at, Headers: []record.Header{
			{Key: "z", Value: []byte("1")},
			{Key: "a"},
			{Key: "z", Value: []byte{}},
			{Key: "n", Value: []byte("7"), Type: record.Int32},
			{Key: "mqferry_poison_route", Value: []byte("not ours")},
		}},
		{ID: "null", Key: []byte("k"), Value: nil, Time: at},
		{ID: "empty", Key: []byte{}, Value: []byte{}, Time: at},
		{ID: "plain", Value: []byte("v"), Time: at},
	}
	for i, r := range originals {
		r.Source = record.Source{DataCenter: "there", Topic: "orders", Lane: "3", Position: strconv.Itoa(i)}
		l.Park(middleware.Parked(r, "one", errors.New("no")))
	}
	got := l.All(l.Browse())
	require.Len(t, got, len(originals))
	for i, r := range got {
		original, why, ok := middleware.Unparked(r)
		require.True(t, ok)
		require.Equal(t, "no", why[middleware.PoisonReason])
		original.Time = original.Time.Local()
		require.Equal(t, originals[i], original)
	}
}

func TestNothingIsLostWhenKafkaIsKilledBeforeARemoval(t *testing.T) {
	const n = 300
	server := brokers.KafkaOwn(t)
	l := newLot(t, server.Address(), newTopicName())
	l.Park(parked("one", 0, n)...)
	b := l.Browse()
	chosen := l.Choose(l.All(b), "one", brokertest.Odd)
	server.Kill(t)
	began := time.Now()
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(b.Remove(t.Context(), chosen)))
	_, err := l.Conn.Browse(t.Context(), l.Destination, l.Options)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.Less(t, time.Since(began), patience)
	server.Start(t)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	require.NoError(t, b.Remove(t.Context(), chosen), "it goes on when Kafka is back")
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
}

func TestALookGoesOnWhenKafkaIsBack(t *testing.T) {
	const n = 2000
	server := brokers.KafkaOwn(t)
	l := newLot(t, server.Address(), newTopicName())
	l.Park(parked("one", 0, n)...)
	b := l.Browse()
	first, err := b.Next(t.Context(), 10)
	require.NoError(t, err)
	server.Stop(t)
	var back sync.WaitGroup
	back.Go(func() { server.Start(t) })
	defer back.Wait()
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), brokertest.Numbers(t, append(first, l.All(b)...), "one"))
}

func TestMessagesThatAreParkedDuringALookStay(t *testing.T) {
	const n = 2000
	l := newLot(t, brokers.Kafka(t, "a").Address(), newTopicName())
	l.Park(parked("one", 0, n)...)
	var parking sync.WaitGroup
	parking.Go(func() {
		for i := 0; i < n; i += 100 {
			l.Park(parked("two", i, i+100)...)
		}
	})
	for range 5 {
		b := l.Browse()
		page, err := b.Next(t.Context(), n/4)
		require.NoError(t, err)
		require.NoError(t, b.Remove(t.Context(), l.Choose(page, "one", brokertest.Every)))
		require.NoError(t, b.Close())
	}
	parking.Wait()
	b := l.Browse()
	require.NoError(t, b.Remove(t.Context(), l.Choose(l.All(b), "one", brokertest.Every)))
	require.Empty(t, l.List("one"))
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("two"))
}

func TestATopicOfSeveralPartitionsThatIsNotCompactedIsReadByTime(t *testing.T) {
	const n = 4000
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, 4, map[string]*string{"cleanup.policy": ptr("delete"), "max.message.bytes": ptr("2000")})
	client := newClient(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1500))
	began := time.Now().Add(-time.Minute)
	for i := range n {
		r := parked("one", i, i+1)[0]
		k := &kgo.Record{Topic: topic, Partition: int32(i * 7 % 3), Key: r.Key, Value: r.Value, Timestamp: began.Add(time.Duration(i) * time.Millisecond)}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		client.Produce(t.Context(), k, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.NoError(t, client.Flush(t.Context()))
	l := newLot(t, address, topic)
	require.Equal(t, brokertest.Interval(0, n, brokertest.Every), l.List("one"))
	b := l.Browse()
	require.NoError(t, b.Remove(t.Context(), l.Choose(l.All(b), "one", brokertest.Odd)), "batches of tombstones fit the topic")
	require.Equal(t, brokertest.Interval(0, n, brokertest.Even), l.List("one"))
}

func TestALookEndsAtRecordsThatCannotBeRead(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, 1, nil)
	l := newLot(t, address, topic)
	l.Park(parked("one", 0, 10)...)
	client := newClient(t, address, kgo.TransactionalID(topic))
	require.NoError(t, client.BeginTransaction())
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("aborted")}).FirstErr())
	require.Equal(t, brokertest.Interval(0, 10, brokertest.Every), l.List("one"), "a transaction that is open")
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryAbort))
	require.Eventually(t, func() bool { // The end comes a little later than the answer.
		ends, err := kadm.NewClient(client).ListCommittedOffsets(t.Context(), topic)
		require.NoError(t, err)
		end, _ := ends.Lookup(topic, 0)
		return end.Offset == 12
	}, patience, 10*time.Millisecond)
	require.Equal(t, brokertest.Interval(0, 10, brokertest.Every), l.List("one"), "one that was aborted")
}

func TestWhatCompactionHasTakenAwayIsNotWaitedFor(t *testing.T) {
	const n = 100
	server := brokers.KafkaOwn(t, "log.cleaner.backoff.ms=50")
	topic := newTopic(t, server.Address(), 1, map[string]*string{
		"cleanup.policy": ptr("compact"), "segment.ms": ptr("1"), "min.cleanable.dirty.ratio": ptr("0.01"), "delete.retention.ms": ptr("0"),
	})
	l := newLot(t, server.Address(), topic)
	l.Park(parked("one", 0, n)...)
	b := l.Browse()
	early, err := b.Next(t.Context(), 1)
	require.NoError(t, err)
	late := l.Browse()
	require.NoError(t, b.Remove(t.Context(), append(early, l.Choose(l.All(b), "one", brokertest.Odd)...)))
	counter := newClient(t, server.Address())
	// Each round closes the segment before it; tombstones go at the second cleaning at the earliest.
	require.Eventually(t, func() bool {
		l.Park(parked("two", 0, 1)...)
		return countRecords(t, counter, topic) < n/2+10
	}, patience, 200*time.Millisecond)
	want := brokertest.Interval(1, n, brokertest.Even)
	require.Equal(t, want, l.List("one"))
	require.Equal(t, want, brokertest.Numbers(t, l.All(late), "one"), "a look that began before")
}

// countRecords counts what is in the only partition of a topic, by reading it to its end.
func countRecords(t *testing.T, client *kgo.Client, topic string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	end, _ := ends.Lookup(topic, 0)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
	defer client.PurgeTopicsFromClient(topic)
	for n := 0; ; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		for _, r := range fetches.Records() {
			n++
			if r.Offset >= end.Offset-1 {
				return n
			}
		}
	}
}

func TestATopicThatIsMissingIsAnEmptyPoisonQueueAndIsNotMade(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	l := newLot(t, address, newTopicName())
	require.Empty(t, l.List("one"))
	topics, err := kadm.NewClient(newClient(t, address)).ListTopics(t.Context())
	require.NoError(t, err)
	require.False(t, topics.Has(l.Destination.Topic))
}

func TestARecordWithoutAKeyIsGivenAndCannotBeRemoved(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, 1, nil)
	client := newClient(t, address)
	require.NoError(t, client.ProduceSync(t.Context(),
		&kgo.Record{Topic: topic, Value: []byte("a")}, &kgo.Record{Topic: topic, Value: []byte("b")}).FirstErr())
	l := newLot(t, address, topic)
	l.Park(parked("one", 0, 1)...)
	b := l.Browse()
	all := l.All(b)
	require.Len(t, all, 3)
	require.ErrorContains(t, b.Remove(t.Context(), all), fmt.Sprintf(`take the message at 0/0 out of topic %q: it has no key`, topic))
	require.Equal(t, []int{0}, brokertest.Numbers(t, l.All(l.Browse())[2:], "one"), "nothing was removed")
}
