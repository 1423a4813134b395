package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

var (
	_ handlers.Browser[DestinationConfig]     = (*Connection)(nil)
	_ handlers.PoisonQueue[DestinationConfig] = DestinationConfig{}
)

// pageBytes is how many bytes Next gives at most, unless a single message has more.
const pageBytes = 8 << 20

// Browse looks through a topic, at least up to its end as it is now, without a group. A record that a later one with its key replaces is left out, and so is one that a tombstone
// takes out: whether the topic is compacted, and how far Kafka has got with that, makes no difference. So the topic is read twice: once for its keys, and then page by
// page. Only keys and offsets are remembered.
//
// A tombstone never vanishes before what it takes out. Kafka drops it delete.retention.ms after a cleaning that has removed all earlier records of its key; retention and
// DeleteRecords take the oldest first. All this holds within a partition, and so does a key here: equal keys in two partitions are two messages. Only an election that loses
// confirmed records (unclean.leader.election.enable) can lose a tombstone alone: the message is then there again.
func (c *Connection) Browse(ctx context.Context, d handlers.Destination, _ DestinationConfig) (handlers.Browsing, error) {
	b := &browsing{conn: c, topic: d.Topic, batch: defaultLimit}
	switch _, err := c.topic(ctx, d.Topic); {
	case errors.Is(err, errNoTopic):
		return b, nil
	case err != nil:
		return nil, err
	}
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	for _, s := range b.stretches {
		if err := b.index(ctx, s); err != nil {
			return nil, err
		}
	}
	b.readLimits(ctx, d)
	return b, nil
}

// browsing is a look through a topic.
type browsing struct {
	conn      *Connection
	topic     string
	batch     int64      // The largest batch that the topic takes.
	stretches []*stretch // By partition.
	places    *kadm.TopicDetail
	producer  *kgo.Client // Of tombstones; nil until there is one.
	hooks     *hooks      // Of the producer.
}

// stretch is what a partition had when the look began.
type stretch struct {
	partition int32
	next, end int64         // What is read next, and where it ends.
	live      []int64       // The offsets of what Next has still to give, after those in read.
	read      []*kgo.Record // What Next gives first.
}

// measure finds where each partition begins and ends.
func (b *browsing) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	starts, err := b.conn.admin.ListStartOffsets(ctx, b.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return b.failed("first offsets of", b.conn.hooks.explain(err))
	}
	ends, err := b.conn.admin.ListCommittedOffsets(ctx, b.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return b.failed("last offsets of", b.conn.hooks.explain(err))
	}
	starts.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(o.Topic, o.Partition)
		b.stretches = append(b.stretches, &stretch{partition: o.Partition, next: o.Offset, end: end.Offset})
	})
	slices.SortFunc(b.stretches, func(x, y *stretch) int { return cmp.Compare(x.partition, y.partition) })
	return nil
}

// readLimits finds out how large a batch of tombstones may be.
func (b *browsing) readLimits(ctx context.Context, d handlers.Destination) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	configs, err := b.conn.admin.DescribeTopicConfigs(ctx, b.topic)
	if err != nil || len(configs) == 0 || configs[0].Err != nil {
		return // Without the right to read them, Kafka's defaults are assumed.
	}
	limit, compacted := limits(configs[0])
	b.batch = min(b.batch, limit)
	if !compacted {
		d.Logger.Warn("the topic is not compacted: Kafka deletes what is in it when its retention is over; set cleanup.policy=compact", "topic", b.topic)
	}
}

// index finds out what a partition holds.
func (b *browsing) index(ctx context.Context, s *stretch) error {
	first := s.next
	last := map[string]int64{}
	for s.next < s.end {
		records, err := b.fetch(ctx, s)
		if err != nil {
			return err
		}
		for _, r := range records {
			switch {
			case r.Key == nil:
				s.live = append(s.live, r.Offset)
			case r.Value == nil:
				delete(last, string(r.Key))
			default:
				last[string(r.Key)] = r.Offset
			}
		}
	}
	for _, offset := range last {
		s.live = append(s.live, offset)
	}
	slices.Sort(s.live)
	s.next = first
	return nil
}

// Next gives up to n messages more. Those of a partition come in its order; of several partitions that message comes first whose timestamp is the oldest. Next may be called
// again after an error.
func (b *browsing) Next(ctx context.Context, n int) ([]*record.Record, error) {
	var page []*record.Record
	for bytes := 0; len(page) < n && bytes < pageBytes; {
		s, err := b.oldest(ctx)
		if s == nil {
			return page, err
		}
		r := fromKafka(b.conn.settings.DataCenter, s.read[0])
		s.read = s.read[1:]
		page = append(page, r)
		bytes += r.Size()
	}
	return page, nil
}

// oldest finds the partition whose first message is the oldest; nil when there are no more.
func (b *browsing) oldest(ctx context.Context) (*stretch, error) {
	var oldest *stretch
	for _, s := range b.stretches {
		for len(s.read) == 0 && len(s.live) > 0 {
			if err := b.fill(ctx, s); err != nil {
				return nil, err
			}
		}
		if len(s.read) > 0 && (oldest == nil || s.read[0].Timestamp.Before(oldest.read[0].Timestamp)) {
			oldest = s
		}
	}
	return oldest, nil
}

// fill reads what is live of a partition. What has vanished since it was indexed was taken out by somebody else, or replaced.
func (b *browsing) fill(ctx context.Context, s *stretch) error {
	s.next = max(s.next, s.live[0])
	records, err := b.fetch(ctx, s)
	if err != nil {
		return err
	}
	for _, r := range records {
		if _, is := slices.BinarySearch(s.live, r.Offset); is {
			s.read = append(s.read, r)
		}
	}
	passed, _ := slices.BinarySearch(s.live, s.next)
	s.live = s.live[passed:]
	return nil
}

// Remove writes a tombstone for each message, and returns nil when all are confirmed. A message without a key has no tombstone: nothing is removed then.
func (b *browsing) Remove(ctx context.Context, records []*record.Record) error {
	tombstones := make([]*kgo.Record, len(records))
	for i, r := range records {
		partition, err := strconv.ParseInt(r.Source.Lane, 10, 32)
		switch {
		case err != nil:
			return fmt.Errorf("take a message out of topic %q: it was not read there", b.topic)
		case r.Key == nil:
			return fmt.Errorf("take the message at %s/%s out of topic %q: it has no key, which Kafka needs for that", r.Source.Lane, r.Source.Position, b.topic)
		}
		tombstones[i] = &kgo.Record{Topic: b.topic, Partition: int32(partition), Key: r.Key}
	}
	if len(tombstones) == 0 {
		return nil
	}
	if err := b.produce(ctx, tombstones); err != nil {
		return b.failed(fmt.Sprintf("take %d messages out of", len(records)), err)
	}
	return nil
}

// produce needs no idempotence, which would keep records whose outcome is unknown for as long as that lasts: two tombstones do what one does.
func (b *browsing) produce(ctx context.Context, records []*kgo.Record) error {
	if b.producer == nil {
		b.hooks = &hooks{config: b.conn.config, meter: &handlers.Meter{}}
		client, err := b.conn.dial(kgo.WithHooks(b.hooks), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
			kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordDeliveryTimeout(adminTimeout), kgo.RetryTimeout(adminTimeout),
			kgo.ProducerBatchMaxBytes(int32(b.batch)), kgo.ProducerLinger(0))
		if err != nil {
			return err
		}
		b.producer = client
	}
	if err := b.producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return b.hooks.why(err)
	}
	return nil
}

// Close ends the look.
func (b *browsing) Close() error {
	if b.producer != nil {
		b.producer.Close()
	}
	return nil
}

func (b *browsing) failed(doing string, err error) error {
	return handlers.Unavailable(fmt.Errorf("%s topic %q: %w", doing, b.topic, err))
}
