package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/integration/brokers"
)

// BenchmarkKafkaToKafka relays messages of 1 KB from one real Kafka to another, over links of the given round-trip time.
func BenchmarkKafkaToKafka(b *testing.B) {
	for _, c := range []struct {
		name             string
		toSource, toDest time.Duration
		compression      kafka.Compression
	}{
		{"near", 0, 0, "none"},
		{"near-snappy", 0, 0, "snappy"},
		{"near-lz4", 0, 0, "lz4"},
		{"destination-50ms", 0, 50 * time.Millisecond, "none"},
		{"source-50ms", 50 * time.Millisecond, 0, "none"},
	} {
		b.Run(c.name, func(b *testing.B) { relay(b, c.toSource, c.toDest, c.compression) })
	}
}

const benchPartitions = 4

func relay(b *testing.B, toSource, toDestination time.Duration, compression kafka.Compression) {
	near, far := brokers.Kafka(b, "a"), brokers.Kafka(b, "b")
	in, out := fmt.Sprintf("in-%d", time.Now().UnixNano()), fmt.Sprintf("out-%d", time.Now().UnixNano())
	load(b, near.Address(), in, b.N)
	address := func(k *brokers.Broker, delay time.Duration) string {
		if delay == 0 {
			return k.Address()
		}
		l := k.Link(b)
		l.Delay(delay)
		return l.Address()
	}
	_, s, d := kafka.DefaultConfig()
	d.Partitions, d.Compression = benchPartitions, compression
	source := source(in)
	source.Group, source.Window = in, 8192
	subscriber, err := dial(b, address(near, toSource)).Subscriber(source, s)
	require.NoError(b, err)
	destination := handlers.Destination{Route: "r", DataCenter: "far", Topic: out, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil)}
	publisher, err := dial(b, address(far, toDestination)).Publisher(destination, d)
	require.NoError(b, err)
	r := handlers.NewRelay(destination, publisher, true)
	b.SetBytes(1024)
	b.ResetTimer()
	messages, err := subscriber.Subscribe(context.Background(), in)
	require.NoError(b, err)
	var running sync.WaitGroup
	running.Go(func() {
		for msg := range messages {
			running.Go(func() {
				if r.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			})
		}
	})
	for source.Meter.Committed.Load() < int64(b.N) {
		<-time.After(time.Millisecond)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.StopTimer()
	require.NoError(b, subscriber.Close())
	running.Wait()
	require.NoError(b, publisher.Close())
}

func dial(b *testing.B, address string) *kafka.Connection {
	c, _, _ := kafka.DefaultConfig()
	c.Brokers = []string{address}
	conn, err := kafka.Open(context.Background(), c, handlers.Settings{DataCenter: "here"})
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn.(*kafka.Connection)
}

// load fills a topic with n messages of 1 KB.
func load(b *testing.B, address, topic string, n int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(), kgo.DisableClientMetrics(),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(b, err)
	defer client.Close()
	value := make([]byte, 1024)
	for i := range value {
		value[i] = byte(i * i * 31)
	}
	for range n {
		client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	require.NoError(b, client.Flush(context.Background()))
}
