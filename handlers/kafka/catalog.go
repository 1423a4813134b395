package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mqferry/mqferry/handlers"
)

const (
	// defaultLimit is Kafka's own default of max.message.bytes.
	defaultLimit = 1<<20 + 12
	// largestLimit stays below the largest request that a broker takes by default.
	largestLimit = 95 << 20
	// smallestLimit is the least that the client takes.
	smallestLimit = 512
	// unsureBytes is how much larger than it is a new client takes a batch, until it knows the broker's version.
	unsureBytes = 3

	// stale is the age of a limit at which it is read again before a message is refused for it.
	stale = 5 * time.Second
	// revisit is how often a topic is looked at again while messages go there.
	revisit = time.Minute
	// pause is how long a topic that was not found, or could not be asked for, is not asked for again.
	pause = 250 * time.Millisecond
)

// topic is what a publisher knows of a destination topic.
type topic struct {
	name    string
	id      kadm.TopicID
	domains []*domain
	keep    bool // Keep the source's partition.
	gone    bool // Deleted, perhaps made again since; guarded by the publisher's lock.

	compacted atomic.Bool
	limit     atomic.Int64 // max.message.bytes.
	batches   atomic.Int64 // The largest batch to be made: the limit, or less when batches of that size were too large.
	checked   atomic.Int64 // When it was last looked at, in Unix nanoseconds.
}

func (t *topic) age() time.Duration { return time.Since(time.Unix(0, t.checked.Load())) }

// tooLarge is the error of a shipment that the topic cannot take.
func (t *topic) tooLarge(s *shipment) error {
	limit := t.limit.Load()
	if int64(s.size) <= limit {
		return nil
	}
	return handlers.Permanent(fmt.Errorf("a record of %d bytes is over the limit of topic %q, max.message.bytes=%d: %w", s.size, t.name, limit, kerr.MessageTooLarge))
}

// catalog is what a publisher knows of its topics. Safe for concurrent use.
type catalog struct {
	publisher *publisher
	known     sync.Map // string to *topic

	loading sync.Mutex
	failed  map[string]failure

	lost map[string]kadm.TopicID // Of topics that were found missing; guarded by the publisher's lock.
}

type failure struct {
	at  time.Time
	err error
}

// topic gives what is known of a topic, and asks the cluster the first time. A topic that is missing is made, if the configuration says so.
func (c *catalog) topic(name string) (*topic, error) {
	if t, ok := c.known.Load(name); ok {
		t := t.(*topic)
		if t.age() > revisit {
			c.revisit(t)
		}
		return t, nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	if t, ok := c.known.Load(name); ok {
		return t.(*topic), nil
	}
	if f := c.failed[name]; time.Since(f.at) < pause {
		return nil, f.err
	}
	t, err := c.load(name)
	if err != nil {
		if c.failed == nil {
			c.failed = map[string]failure{}
		}
		c.failed[name] = failure{time.Now(), err}
		return nil, err
	}
	c.known.Store(name, t)
	return t, nil
}

func (c *catalog) load(name string) (*topic, error) {
	p := c.publisher
	detail, err := p.conn.topic(p.life, name)
	if errors.Is(err, errNoTopic) && p.config.Create {
		detail, err = p.conn.create(p.life, name, p.config)
	}
	if err != nil {
		return nil, err
	}
	t := &topic{name: name, id: detail.id}
	if t.keep, err = c.keeps(t, detail.partitions); err != nil {
		return nil, err
	}
	if err := c.readLimits(t); err != nil {
		return nil, err
	}
	t.batches.Store(t.limit.Load())
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := c.lost[name]; ok {
		delete(c.lost, name)
		p.destination.Meter.Recreated.Add(1)
		p.destination.Logger.Warn("the destination topic was missing and is there again", "topic", name, "same", id == detail.id)
	}
	for i := range detail.partitions {
		t.domains = append(t.domains, &domain{publisher: p, topic: t, partition: int32(i)})
	}
	p.domains = append(p.domains, t.domains...)
	if p.fit(t) {
		p.replace()
	}
	return t, nil
}

// keeps decides, once and for all messages, whether they stay in the partition of their number.
func (c *catalog) keeps(t *topic, partitions int) (bool, error) {
	p := c.publisher
	rule := p.config.Partition
	if rule == PartitionKey || rule == PartitionSpread {
		return false, nil
	}
	if p.destination.SourcePartitions == nil {
		if rule == PartitionKeep {
			return false, handlers.Unroutable(fmt.Errorf("topic %q: partition: keep needs a source with partitions; choose auto, key or spread", t.name))
		}
		return false, nil
	}
	ctx, cancel := context.WithTimeout(p.life, adminTimeout)
	defer cancel()
	n, err := p.destination.SourcePartitions(ctx)
	switch {
	case err != nil:
		return false, handlers.Unavailable(fmt.Errorf("count the partitions of the source: %w", err))
	case n == partitions:
		return true, nil
	case rule == PartitionKeep:
		return false, handlers.Unroutable(fmt.Errorf("topic %q has %d partitions and the source %d: partition: keep needs equally many; add partitions, or choose auto, key or spread", t.name, partitions, n))
	}
	p.destination.Logger.Warn("the topics have differently many partitions: messages go by key, not by partition", "topic", t.name, "source", n, "destination", partitions)
	return false, nil
}

// readLimits asks for the topic's configuration. Without the right to read it, Kafka's defaults are assumed.
func (c *catalog) readLimits(t *topic) error {
	p := c.publisher
	ctx, cancel := context.WithTimeout(p.life, adminTimeout)
	defer cancel()
	configs, err := p.conn.admin.DescribeTopicConfigs(ctx, t.name)
	if err == nil && len(configs) > 0 {
		err = configs[0].Err
	}
	limit, compacted := int64(defaultLimit), false
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		p.destination.Logger.Warn("no right to read the topic's limits: Kafka's defaults are assumed", "topic", t.name, "error", err)
	case isMissing(err):
		return handlers.Unroutable(fmt.Errorf("read the limits of topic %q: %w", t.name, err))
	case err != nil || len(configs) == 0:
		return handlers.Unavailable(fmt.Errorf("read the limits of topic %q: %w", t.name, err))
	default:
		limit, compacted = limits(configs[0])
	}
	t.limit.Store(limit)
	t.compacted.Store(compacted)
	t.checked.Store(time.Now().UnixNano())
	return nil
}

func limits(r kadm.ResourceConfig) (limit int64, compacted bool) {
	limit = defaultLimit
	for _, c := range r.Configs {
		if c.Value == nil {
			continue
		}
		switch c.Key {
		case "max.message.bytes":
			if n, err := strconv.ParseInt(*c.Value, 10, 64); err == nil {
				limit = n
			}
		case "cleanup.policy":
			compacted = strings.Contains(*c.Value, "compact")
		}
	}
	return min(max(limit, smallestLimit), largestLimit), compacted
}

// revisit reads the topic's limits again, not in the way of messages.
func (c *catalog) revisit(t *topic) {
	p := c.publisher
	t.checked.Store(time.Now().UnixNano())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.background.Go(func() {
		lowered := c.refresh(t)
		c.comparePartitions(t)
		p.mu.Lock()
		defer p.mu.Unlock()
		if lowered {
			p.replace()
		}
	})
}

// comparePartitions warns when partitions were added: a lane that changed its partition would lose its order, so it does not until the next start.
func (c *catalog) comparePartitions(t *topic) {
	p := c.publisher
	detail, err := p.conn.topic(p.life, t.name)
	if err == nil && detail.partitions != len(t.domains) && detail.id == t.id {
		p.destination.Logger.Warn("the number of partitions changed: the new ones are used after a restart of the route",
			"topic", t.name, "used", len(t.domains), "now", detail.partitions)
	}
}

// refresh reads the topic's limits, and reports whether batches must be smaller than they were.
func (c *catalog) refresh(t *topic) (lowered bool) {
	if err := c.readLimits(t); err != nil {
		c.publisher.destination.Logger.Warn("cannot read the topic's limits", "topic", t.name, "error", err)
		return false
	}
	limit := t.limit.Load()
	if t.batches.Load() <= limit {
		return false
	}
	t.batches.Store(limit)
	return true
}

// lower keeps the topic's batches at or below bytes from now on. The publisher's lock is held.
func (c *catalog) lower(t *topic, bytes int) {
	t.batches.Store(min(max(int64(bytes), smallestLimit), t.batches.Load()))
	c.publisher.destination.Logger.Warn("the topic takes only smaller batches than its limit says: they are made smaller", "topic", t.name, "bytes", t.batches.Load())
	c.publisher.replace()
}

// admit refuses what the topic can never take, and sees to it that the client takes the rest.
func (c *catalog) admit(t *topic, s *shipment) error {
	if t.compacted.Load() && s.record.Key == nil {
		return handlers.Permanent(fmt.Errorf("a record without a key cannot go into topic %q, which is compacted", t.name))
	}
	if int64(s.size) <= t.batches.Load() {
		return nil
	}
	if t.tooLarge(s) != nil && t.age() > stale {
		c.refresh(t)
	}
	if err := t.tooLarge(s); err != nil {
		return err
	}
	p := c.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(s.size) > t.batches.Load() {
		t.batches.Store(min(int64(s.size)+unsureBytes, t.limit.Load()))
		p.fit(t)
		p.replace()
	}
	return nil
}

// batchBytes tells the client how large a topic's batches may be: what it counts is the batch and the length before it.
func (c *catalog) batchBytes(name string) int32 {
	t, ok := c.known.Load(name)
	if !ok {
		return defaultLimit
	}
	n := t.(*topic).batches.Load()
	length := int64(1)
	for u := n + 1; u >= 0x80; u >>= 7 {
		length++
	}
	return int32(n + length)
}

// forget drops a topic that was deleted: it is looked up anew for the next message. The publisher's lock is held.
func (c *catalog) forget(t *topic) {
	if t.gone {
		return
	}
	t.gone = true
	c.known.CompareAndDelete(t.name, t)
	if c.lost == nil {
		c.lost = map[string]kadm.TopicID{}
	}
	c.lost[t.name] = t.id
}

// domain finds a partition, for the client's logger. It takes no lock.
func (c *catalog) domain(name string, partition int32) *domain {
	t, ok := c.known.Load(name)
	if !ok {
		return nil
	}
	domains := t.(*topic).domains
	if partition < 0 || int(partition) >= len(domains) {
		return nil
	}
	return domains[partition]
}
