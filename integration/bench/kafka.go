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

// kafkaToKafka measures Kafka to Kafka, beside MirrorMaker 2 as shipped and with larger batches.
func kafkaToKafka(ctx context.Context, o options) ([]row, error) {
	const pair = "Kafka→Kafka"
	if !o.wants(pair, "mqferry") && !o.wants(pair, "MirrorMaker 2") {
		return nil, nil
	}
	s, err := openSites(func() (*brokers.Broker, error) { return brokers.StartKafka() })
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := fillKafka(ctx, s.a.Address(), o); err != nil {
		return nil, err
	}
	// A topic that has just been made is to be seen at once.
	client, err := kgo.NewClient(kgo.SeedBrokers(s.b.Address()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ferry := relay{name: "mqferry", start: func(run string) (func() (int, error), func(), error) {
		stop, err := s.workshop.ferry(run, kafkaSite(s.a.Address()), kafkaSite(s.far.Address()))
		return counter(ctx, admin, run), stop, err
	}}
	mirror := func(name string, extra string) relay {
		return relay{name: name, start: func(run string) (func() (int, error), func(), error) {
			program, arguments := brokers.KafkaProgram("org.apache.kafka.connect.mirror.MirrorMaker", s.workshop.file(run))
			stop, err := s.workshop.run(run, mirrorMaker(run, s.a.Address(), s.far.Address())+extra, program, arguments...)
			return counter(ctx, admin, run+".bench"), stop, err
		}}
	}
	return o.measure(ctx, pair, s.far.Delay, []relay{
		ferry,
		mirror("MirrorMaker 2, defaults", ""),
		mirror("MirrorMaker 2, batch 1 MB, linger 20 ms", "far.producer.batch.size = 1000000\nfar.producer.linger.ms = 20\n"),
	})
}

func kafkaSite(address string) string { return fmt.Sprintf("kafka: {brokers: [%q]}", address) }

// mirrorMaker is the smallest configuration of a one-way MirrorMaker 2. The source's alias is new in each run, so that it begins at the start.
func mirrorMaker(alias, from, to string) string {
	text := fmt.Sprintf("clusters = %[1]s, far\n%[1]s.bootstrap.servers = %[2]s\nfar.bootstrap.servers = %[3]s\n"+
		"%[1]s->far.enabled = true\n%[1]s->far.topics = bench\nfar->%[1]s.enabled = false\n", alias, from, to)
	for _, topic := range []string{"", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "offset.storage.", "status.storage.", "config.storage."} {
		text += topic + "replication.factor = 1\n"
	}
	return text
}

// counter counts what a topic holds; one that is not there yet holds nothing.
func counter(ctx context.Context, admin *kadm.Client, topic string) func() (int, error) {
	return func() (int, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ends, err := admin.ListEndOffsets(ctx, topic)
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
}

func fillKafka(ctx context.Context, address string, o options) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("bench"), kgo.MaxBufferedRecords(50_000),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, "bench"); err != nil {
		return fmt.Errorf("create the source topic: %w", err)
	}
	for i := range o.messages {
		client.Produce(ctx, kgo.SliceRecord(payload(o.size, uint64(i))), nil)
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("fill the source topic: %w", err)
	}
	return nil
}
