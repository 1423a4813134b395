package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
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
)

// readLimits asks for the topic's configuration.
func (c *catalog) readLimits(t *topic) error {
	p := c.publisher
	limit, compacted, err := p.conn.limits(p.life, p.destination.Logger, t.name)
	if err != nil {
		return err
	}
	t.limit.Store(limit)
	t.compacted.Store(compacted)
	t.checked.Store(time.Now().UnixNano())
	return nil
}

// limits asks for the largest batch that a topic takes, and whether it needs keys. Without the right to read that, Kafka's defaults are assumed.
func (c *Connection) limits(ctx context.Context, logger *slog.Logger, topic string) (limit int64, compacted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	configs, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err == nil && len(configs) > 0 {
		err = configs[0].Err
	}
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		logger.Warn("no right to read the topic's limits: Kafka's defaults are assumed", "topic", topic, "error", err)
		return defaultLimit, false, nil
	case isMissing(err):
		return 0, false, handlers.Unroutable(fmt.Errorf("read the limits of topic %q: %w", topic, err))
	case err != nil || len(configs) == 0:
		return 0, false, handlers.Unavailable(fmt.Errorf("read the limits of topic %q: %w", topic, c.hooks.explain(err)))
	}
	limit, compacted = limits(configs[0])
	return limit, compacted, nil
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
		return keyless(t.name)
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

// tooLarge is the error of a shipment that the topic cannot take.
func (t *topic) tooLarge(s *shipment) error { return overLimit(t.name, s.size, t.limit.Load()) }

func overLimit(topic string, size int, limit int64) error {
	if int64(size) <= limit {
		return nil
	}
	return handlers.Permanent(fmt.Errorf("a record of %d bytes is over the limit of topic %q, max.message.bytes=%d: %w", size, topic, limit, kerr.MessageTooLarge))
}

func keyless(topic string) error {
	return handlers.Permanent(fmt.Errorf("a record without a key cannot go into topic %q, which is compacted", topic))
}
