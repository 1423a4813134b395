package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// Kafka is a topic of a Kafka, with one lane for each of its partitions.
type Kafka struct {
	site, topic string
	address     string // For the tests.
	reached     string // For the ferry.
	partitions  int
	size        int
	client      *kgo.Client
	admin       *kadm.Client
}

// NewKafka makes a new topic on the broker. A setting is one of the topic's, such as "max.message.bytes=20000". The
// topic stays: the brokers of tests are thrown away.
func NewKafka(t testing.TB, site string, b *brokers.Broker, partitions int, settings ...string) *Kafka {
	t.Helper()
	k := &Kafka{
		site: site, topic: uniqueName("orders"),
		address: b.Address(), reached: b.Address(), partitions: partitions, size: payloadSize,
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(k.address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000),
		kgo.ProducerBatchMaxBytes(900_000),
	)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	k.client, k.admin = client, kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	values := map[string]*string{}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		values[name] = &value
	}
	_, err = k.admin.CreateTopic(ctx, int32(partitions), 1, values, k.topic)
	require.NoError(t, err)
	return k
}

// Through lets the ferry reach the broker at another address, such as that of a link; the test itself goes the straight way.
func (k *Kafka) Through(address string) *Kafka {
	k.reached = address
	return k
}

// Payloads sets the size of the payloads from now on, 1 KB otherwise.
func (k *Kafka) Payloads(size int) { k.size = size }

// Set changes a setting of the topic while it is in use.
func (k *Kafka) Set(t testing.TB, name, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answers, err := k.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, k.topic)
	require.NoError(t, err)
	for _, answer := range answers {
		require.NoError(t, answer.Err)
	}
}

// Site is the name of the data center, and its broker as a config file describes it.
func (k *Kafka) Site() (name, broker string) {
	return k.site, fmt.Sprintf("kafka: {brokers: [%q]}", k.reached)
}

// Topic is the name of the topic.
func (k *Kafka) Topic() string { return k.topic }

// Lanes is how many partitions it has.
func (k *Kafka) Lanes() int { return k.partitions }

func (k *Kafka) options() string { return "" }

// make gives a message all that Kafka has: headers in an order of their own, repeated, null, empty and with a declared name.
func (k *Kafka) make(i int, route string, _ End) *message {
	partition := i % k.partitions
	m := &message{lane: strconv.Itoa(partition), seq: uint64(i / k.partitions)}
	headers := append([]record.Header{{Key: "zone", Value: []byte("first")}}, m.place()...)
	headers = append(headers, record.Header{Key: "zone", Value: []byte{0, 0xff, 0xfe, '\n'}})
	if m.seq%3 == 0 {
		headers = append(
			headers,
			record.Header{Key: "null"},
			record.Header{Key: "empty", Value: []byte{}},
			record.Header{Key: record.KeyEntry, Value: []byte("not the key")},
			record.Header{Key: "zone", Value: []byte("first")},
		)
	}
	m.record = &record.Record{ID: m.id(route), Key: m.key(), Value: m.payload(k.size), Headers: headers, Time: anHourAgo()}
	m.record.Source = record.Source{DataCenter: k.site, Topic: k.topic, Lane: m.lane}
	return m
}

func (k *Kafka) send(ctx context.Context, messages []*message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = k.encode(m.record)
	}
	if err := k.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce to %s: %w", k.topic, err)
	}
	for i, m := range messages {
		m.record.Source.Position = strconv.FormatInt(records[i].Offset, 10)
	}
	return nil
}

// encode puts the id where watermill-kafka keeps it.
func (k *Kafka) encode(r *record.Record) *kgo.Record {
	partition, _ := strconv.ParseInt(r.Source.Lane, 10, 32)
	out := &kgo.Record{Topic: k.topic, Partition: int32(partition), Key: r.Key, Value: r.Value, Timestamp: r.Time}
	if r.ID != "" {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: record.IDKey, Value: []byte(r.ID)})
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// decode is the other way.
func decode(r *kgo.Record) *record.Record {
	out := &record.Record{Key: r.Key, Value: r.Value, Time: r.Timestamp}
	out.Source.Lane = strconv.Itoa(int(r.Partition))
	for _, h := range r.Headers {
		if h.Key == record.IDKey && out.ID == "" {
			out.ID = string(h.Value)
			continue
		}
		out.Headers = append(out.Headers, record.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// expected is the message as it was, with an id in any case.
func (k *Kafka) expected(m *message, _ End) *record.Record { return identified(m.record) }

// identified is r with the id that it gets from its place when it has none.
func identified(r *record.Record) *record.Record {
	if r.ID != "" {
		return r
	}
	out := *r
	out.ID = record.DeriveID(r.Source)
	return &out
}

func (k *Kafka) count(ctx context.Context) (int, error) {
	ends, err := k.ends(ctx)
	total := 0
	for _, end := range ends {
		total += int(end)
	}
	return total, err
}

// ends are where the partitions end, by their numbers. Nothing is ever deleted from a test's topic, so they begin at 0.
func (k *Kafka) ends(ctx context.Context) (map[int32]int64, error) {
	listed, err := k.admin.ListEndOffsets(ctx, k.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", k.topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

func (k *Kafka) read(ctx context.Context, from End, each func(*record.Record)) error {
	ends, err := k.ends(ctx)
	if err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	for partition, end := range ends {
		if end > 0 {
			starts[partition] = kgo.NewOffset().AtStart()
		}
	}
	if len(starts) == 0 {
		return nil
	}
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(k.address), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.topic: starts}),
	)
	if err != nil {
		return err
	}
	defer reader.Close()
	_, timeless := from.(*RabbitMQ)
	for open := len(starts); open > 0; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", k.topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			switch end := ends[r.Partition]; {
			case r.Offset >= end:
				return
			case r.Offset == end-1:
				open--
			}
			out := decode(r)
			if timeless && slices.ContainsFunc(out.Headers, noTime) {
				out.Time = time.Time{}
			}
			each(out)
		})
	}
	return nil
}

// noTime reports whether h says that the message had no time, so that the one that it has is that of its arrival.
func noTime(h record.Header) bool { return h.Key == record.TimestampEntry && len(h.Value) == 0 }

func (k *Kafka) unacked(ctx context.Context, group string) (string, error) {
	ends, err := k.ends(ctx)
	if err != nil {
		return "", err
	}
	committed, err := k.admin.FetchOffsetsForTopics(ctx, group, k.topic)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return "", fmt.Errorf("offsets of group %s: %w", group, err)
	}
	for partition, end := range ends {
		o, _ := committed.Lookup(k.topic, partition)
		if at := max(o.At, 0); at != end {
			return fmt.Sprintf("group %s is at %d of %d in partition %d of %s", group, at, end, partition, k.topic), nil
		}
	}
	return "", nil
}
