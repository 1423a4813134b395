package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/integration/ledger"
)

const (
	group     = "shop"
	readCount = 1000
	readBlock = 100 * time.Millisecond
	// payloadField is where Watermill's Redis Streams package, and so every application that uses it, has the message.
	payloadField = "payload"
)

// consumer is an application in the second data center: it reads orders from its own Redis.
type consumer struct {
	client    *redis.Client
	ledger    *ledger.Ledger
	delivered atomic.Int64
}

func newConsumer(w *world, books *ledger.Ledger) *consumer {
	return &consumer{client: redis.NewClient(&redis.Options{Addr: w.frankfurt.Addr(), MaxRetries: -1}), ledger: books}
}

// run reads until last is closed and nothing is left to read.
func (c *consumer) run(ctx context.Context, last <-chan struct{}) error {
	defer func() { _ = c.client.Close() }()
	if err := c.client.XGroupCreateMkStream(ctx, topic, group, "0").Err(); err != nil {
		return fmt.Errorf("consumer in frankfurt: %w", err)
	}
	for {
		ending := closed(last)
		entries, err := c.read(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("consumer in frankfurt: %w", err)
		case len(entries) == 0 && ending:
			return nil
		}
		for _, e := range entries {
			c.take(e)
		}
	}
}

// read waits a little for the next entries. A crash would lose what it returned, and a demo that crashes has shown enough.
func (c *consumer) read(ctx context.Context) ([]redis.XMessage, error) {
	// A demo may run for days. What is kept is twice what can be unread.
	if err := c.client.XTrimMaxLen(ctx, topic, 2*maxBehind).Err(); err != nil {
		return nil, err
	}
	streams, err := c.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: group, Streams: []string{topic, ">"}, Count: readCount, Block: readBlock, NoAck: true,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	return streams[0].Messages, nil
}

// take enters what arrived into the books.
func (c *consumer) take(e redis.XMessage) {
	c.delivered.Add(1)
	payload, _ := e.Values[payloadField].(string)
	var o order
	if err := json.Unmarshal([]byte(payload), &o); err != nil {
		c.ledger.Stranger("", fmt.Sprintf("entry %s is not an order: %v", e.ID, err))
		return
	}
	c.ledger.Arrived(o.Customer, o.Number, fingerprint([]byte(payload)))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
