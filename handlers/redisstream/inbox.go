package redisstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// inbox looks at what the stock subscriber asks its client, since it tells nobody: whether the server answers, and which entries it has. It is also its
// Unmarshaller, which accepts any entry: an error there would end the subscription for good.
type inbox struct {
	connection    *connection
	source        handlers.Source
	consumer      string
	claimIdle     time.Duration
	subscribed    bool           // The subscriber's own goroutine's, like the next.
	noGroupBefore bool           // The group was not there when this began.
	settled       string         // The position of the last message that was acked by whoever has it.
	last          *record.Record // Of the message that is being emitted; the stock subscriber emits one after the other. Nil for an entry that is gone.
	noGroup       atomic.Bool    // The group is gone.

	mu    sync.Mutex
	held  map[string]struct{}
	acked chan struct{} // Closed, and made anew, with each ack.
}

// entryKey is where the id of an entry is put among its fields, since an Unmarshaller sees only these. A field's value is never an entryPosition.
const entryKey = "mqferry entry id"

type entryPosition string

func newInbox(s *stockSubscriber) *inbox {
	consumer := s.options.Consumer
	if consumer == "" {
		consumer = s.connection.settings.Instance
	}
	if consumer == "" {
		consumer = "mqferry"
	}
	return &inbox{
		connection: s.connection, source: s.source, consumer: consumer, claimIdle: time.Duration(s.options.ClaimIdle),
		held: map[string]struct{}{}, acked: make(chan struct{}),
	}
}

// takeBack lets the entries that this consumer left pending look abandoned: the stock subscriber never asks for its own, but it claims those before
// it reads anything new, and not only after their claim_idle.
func (i *inbox) takeBack(ctx context.Context, client *redis.Client) error {
	for from := "-"; ; {
		page, err := client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: i.source.Topic, Group: i.source.Group, Start: from, End: "+", Count: ackChunk, Consumer: i.consumer,
		}).Result()
		if redis.HasErrorPrefix(err, "NOGROUP") {
			i.noGroupBefore = true
			return nil
		}
		if err != nil || len(page) == 0 {
			return err
		}
		args := []any{"XCLAIM", i.source.Topic, i.source.Group, i.consumer, 0}
		for _, p := range page {
			args = append(args, p.ID)
		}
		claimed, err := client.Do(ctx, append(args, "IDLE", i.claimIdle.Milliseconds(), "JUSTID")...).Slice()
		if err != nil {
			return fmt.Errorf("claim entries of stream %s/%s: %w", i.source.DataCenter, i.source.Topic, err)
		}
		// The server forgets a deleted entry when it is claimed.
		if n := len(page) - len(claimed); n > 0 {
			i.lost(n)
		}
		last, ok := parseID(page[len(page)-1].ID)
		if !ok || len(page) < ackChunk {
			return nil
		}
		from = last.after().String()
	}
}

// lost counts entries that were deleted while they were pending.
func (i *inbox) lost(n int) {
	i.source.Meter.Dropped.Add(int64(n))
	i.source.Logger.Warn("entries were deleted from the stream before they could be carried: a stream that is trimmed needs a higher limit",
		"stream", i.source.Topic, "group", i.source.Group, "entries", n)
}

// Unmarshal keeps the record of an entry for hand, and gives the stock subscriber something to carry around.
func (i *inbox) Unmarshal(values map[string]any) (*message.Message, error) {
	i.last = unmarshal(i.source, values)
	if i.last == nil {
		return message.NewMessage("", nil), nil
	}
	return message.NewMessage(i.last.ID, nil), nil
}

// stopOn notes why the stock subscriber is to end.
func (i *inbox) stopOn(err error) bool {
	// A read that waits when the stream is deleted is answered with UNBLOCKED.
	i.noGroup.Store(redis.HasErrorPrefix(err, "NOGROUP") || redis.HasErrorPrefix(err, "UNBLOCKED"))
	return true
}

// DialHook changes nothing.
func (i *inbox) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing: the stock subscriber has no pipelines.
func (i *inbox) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook sees every command and its answer.
func (i *inbox) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		switch {
		case err == nil || errors.Is(err, redis.Nil):
			i.source.Health.Up()
			i.see(cmd)
		case ctx.Err() != nil || errors.Is(err, redis.ErrClosed):
		default:
			i.source.Health.Down(i.connection.permitSource(i.source, fmt.Errorf("%s: %w", cmd.Name(), err)))
		}
		return err
	}
}

func (i *inbox) see(cmd redis.Cmder) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch cmd := cmd.(type) {
	case *redis.XStreamSliceCmd:
		for _, stream := range cmd.Val() {
			i.take(stream.Messages)
		}
	case *redis.XMessageSliceCmd:
		i.take(cmd.Val())
	case *redis.IntCmd:
		if cmd.Name() != "xack" {
			return
		}
		for _, id := range cmd.Args()[3:] {
			delete(i.held, fmt.Sprint(id))
			i.source.Meter.Committed.Add(1)
		}
		close(i.acked)
		i.acked = make(chan struct{})
	}
}

func (i *inbox) take(messages []redis.XMessage) {
	for _, m := range messages {
		i.held[m.ID] = struct{}{}
		if m.Values != nil {
			m.Values[entryKey] = entryPosition(m.ID)
		}
	}
}

// has reports whether an entry was read and is not acked yet.
func (i *inbox) has(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, has := i.held[id]
	return has
}

// awaitAck waits until the last settled entry is acked at the server, for a while.
func (i *inbox) awaitAck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stockDrain)
	defer cancel()
	for {
		i.mu.Lock()
		_, has := i.held[i.settled]
		acked := i.acked
		i.mu.Unlock()
		if !has {
			return
		}
		select {
		case <-acked:
		case <-ctx.Done():
			return
		}
	}
}
