package middleware

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// DeduplicateConfig says what makes two messages copies of one, and for how long that is remembered.
type DeduplicateConfig struct {
	// By is id, the default, for the message id, or header.NAME. A message that has none is delivered and counted.
	By string `yaml:"by"`
	// TTL is how long a delivered message is remembered; 1h by default.
	TTL config.Duration `yaml:"ttl"`
	// MaxEntries is how many messages are remembered at most in the memory of the process; the oldest are forgotten first. 1000000 by default, which takes some 150 MB.
	MaxEntries int `yaml:"max_entries"`
	// Redis is a Redis that remembers instead, over a restart and for other instances; nowhere by default.
	Redis *SeenRedisConfig `yaml:"redis"`
}

// DefaultDeduplicate is what applies where a file says nothing.
func DefaultDeduplicate() DeduplicateConfig {
	return DeduplicateConfig{By: "id", TTL: config.Duration(time.Hour), MaxEntries: 1_000_000}
}

// Validate reports what no message could be told from another by.
func (c DeduplicateConfig) Validate() error {
	var errs []error
	if header, ok := strings.CutPrefix(c.By, "header."); c.By != "id" && (!ok || header == "") {
		errs = append(errs, config.Invalid("by", `%q is neither "id" nor "header.NAME"`, c.By))
	}
	if c.TTL < config.Duration(time.Second) {
		errs = append(errs, config.Invalid("ttl", `%s is less than 1s; write for example "1h"`, c.TTL))
	}
	if c.MaxEntries < 1 {
		errs = append(errs, config.Invalid("max_entries", "%d is less than 1", c.MaxEntries))
	}
	return errors.Join(errs...)
}

// seenStore remembers the ids of delivered messages. Safe for concurrent use.
type seenStore interface {
	// seen tells whether an id was marked within its time.
	seen(ctx context.Context, id string) (bool, error)
	// mark remembers an id from now on.
	mark(ctx context.Context, id string) error
	close() error
}

// deduplicator drops copies. An id is claimed by the first message that has it when that message's turn comes, and remembered once it is confirmed.
type deduplicator struct {
	config DeduplicateConfig
	store  seenStore
	recent *seenMemory // Delivered by this process: also what the store did not know yet when it was asked.
	s      Settings

	mu         sync.Mutex
	claims     map[string]*message.Message
	complained time.Time
}

// Deduplicate drops a message of which a copy was delivered already, or is on its way: acked and counted as a duplicate. Watermill's own marks a message as seen before it is
// delivered, and so loses it when it comes again after a failure. Here a message counts as seen when the destination has confirmed it. That of two copies in flight the second
// is dropped loses nothing: the first is not acked before it is confirmed.
func Deduplicate(c DeduplicateConfig, s Settings) message.HandlerMiddleware {
	s = s.complete()
	d := &deduplicator{config: c, s: s, recent: newSeenMemory(c.MaxEntries, time.Duration(c.TTL)), claims: map[string]*message.Message{}}
	d.store = d.recent
	if c.Redis != nil {
		store := newSeenRedis(*c.Redis, s.Route, time.Duration(c.TTL))
		d.store = store
		s.OnClose(store.close)
	}
	s.AtTurn(d.claim)
	return d.link
}

// id gives what tells the message from others; "" when it has nothing of the kind.
func (d *deduplicator) id(msg *message.Message) string {
	if header, ok := strings.CutPrefix(d.config.By, "header."); ok {
		return msg.Metadata.Get(header)
	}
	return msg.UUID
}

func duplicate() error {
	return &dropped{reason: "a copy of it was delivered, or is on its way", as: handlers.Duplicate}
}

func (d *deduplicator) link(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		id := d.id(msg)
		if id == "" {
			d.s.Meter.NoID.Add(1)
			return next(msg)
		}
		// Asked before the turn, so that nobody waits for the answer at his turn.
		seen, err := d.store.seen(msg.Context(), id)
		if err != nil {
			return nil, handlers.Unavailable(fmt.Errorf("ask whether message %s was delivered: %w", id, err))
		}
		if seen {
			return nil, duplicate()
		}
		produced, err := next(msg)
		if err == nil {
			d.delivered(msg.Context(), id)
		}
		d.release(id, msg)
		return produced, err
	}
}

// claim is asked at the turn of a message.
func (d *deduplicator) claim(msg *message.Message) error {
	id := d.id(msg)
	if id == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if owner, claimed := d.claims[id]; claimed && owner != msg {
		return duplicate()
	}
	if d.recent.has(id) {
		return duplicate()
	}
	d.claims[id] = msg
	return nil
}

// delivered remembers an id. That it cannot be remembered is no reason to deliver the message again.
func (d *deduplicator) delivered(ctx context.Context, id string) {
	d.recent.note(id)
	if d.store == d.recent {
		return
	}
	if err := d.store.mark(context.WithoutCancel(ctx), id); err != nil {
		d.complain(err)
	}
}

// complain logs that a delivered message could not be remembered, once a minute at most.
func (d *deduplicator) complain(err error) {
	d.mu.Lock()
	quiet := time.Since(d.complained) < time.Minute
	if !quiet {
		d.complained = time.Now()
	}
	d.mu.Unlock()
	if !quiet {
		d.s.Logger.Warn("delivered messages cannot be remembered, so copies of them may be delivered too", "error", err)
	}
}

func (d *deduplicator) release(id string, msg *message.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claims[id] == msg {
		delete(d.claims, id)
	}
}
