package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/integration/brokers"
)

const partitions = 4

func kafkaStation() *station {
	return &station{
		name:  "Kafka",
		start: func() (*brokers.Broker, error) { return brokers.StartKafka() },
		site:  func(_ *brokers.Broker, address string) string { return fmt.Sprintf("kafka: {brokers: [%q]}", address) },
		fill:  fillKafka,
		count: func(b *brokers.Broker) (counter, error) {
			// A topic that has just been made is to be seen at once.
			client, err := kgo.NewClient(kgo.SeedBrokers(b.Address()), kgo.MetadataMinAge(50*time.Millisecond))
			if err != nil {
				return nil, err
			}
			return kafkaCounter{client, kadm.NewClient(client)}, nil
		},
	}
}

type kafkaCounter struct {
	client *kgo.Client
	admin  *kadm.Client
}

func (c kafkaCounter) close() { c.client.Close() }

func (c kafkaCounter) count(ctx context.Context, topic string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			n += int(o.Offset)
		}
	})
	return n, nil
}

// mirrorMaker runs MirrorMaker 2 with further lines in its configuration. It names a topic after the cluster that it comes from.
func (b *bench) mirrorMaker(name, extra string) relay {
	return relay{
		name: name,
		start: func(c crossing) (*moving, error) {
			program, arguments := brokers.KafkaProgram("org.apache.kafka.connect.mirror.MirrorMaker", b.workshop.file(c.run))
			return b.workshop.run(c.run, mirrorMakerConfig(c)+extra, program, arguments...)
		},
		arrives: func(c crossing) string { return c.run + "." + c.topic },
	}
}

// mirrorMakerConfig is the smallest configuration of a one-way MirrorMaker 2. The source's alias is new in each run, so that it begins at the start.
func mirrorMakerConfig(c crossing) string {
	text := fmt.Sprintf("clusters = %[1]s, far\n%[1]s.bootstrap.servers = %[2]s\nfar.bootstrap.servers = %[3]s\n"+
		"%[1]s->far.enabled = true\n%[1]s->far.topics = %[4]s\nfar->%[1]s.enabled = false\n",
		c.run, c.from.near.Address(), c.to.link.Address(), c.topic)
	for _, topic := range []string{"", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "offset.storage.", "status.storage.", "config.storage."} {
		text += topic + "replication.factor = 1\n"
	}
	return text
}

func fillKafka(ctx context.Context, b *brokers.Broker, topic string, o options) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address()), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(50_000),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return err
	}
	for i := range o.messages {
		client.Produce(ctx, kgo.SliceRecord(payload(o.size, uint64(i))), nil)
	}
	return client.Flush(ctx)
}
