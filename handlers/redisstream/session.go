package redisstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// session is a reader that has the lease, on one connection.
type session struct {
	reader *reader
	source handlers.Source // The reader's.
	client *redis.Client
	inlet  *handlers.Inlet
	swept  time.Time
}

// entry is one entry as it was read. Without fields it was deleted from the stream while it was pending.
type entry struct {
	id     entryID
	fields []string
}

// run takes over what is pending and reads what is new, until something fails.
func (s *session) run(ctx context.Context, good func()) error {
	err := s.begin(ctx)
	if redis.HasErrorPrefix(err, "NOGROUP") {
		if err = s.recreate(ctx); err == nil {
			err = s.begin(ctx)
		}
	}
	if err != nil {
		return err
	}
	for {
		good()
		s.source.Health.Up()
		if time.Since(s.swept) > time.Duration(s.reader.options.ClaimIdle) {
			if err := s.takeOver(ctx, 0); err != nil {
				return err
			}
		}
		entries, err := s.read(ctx, ">", blockTime)
		if err != nil {
			return err
		}
		if err := s.hand(ctx, entries); err != nil {
			return err
		}
	}
}

// begin makes the group if it was never seen, and takes over everything that is pending in it.
func (s *session) begin(ctx context.Context) error {
	if !s.reader.created {
		if err := s.create(ctx, s.start()); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return err
		}
		s.reader.created = true
	}
	return s.takeOver(ctx, time.Duration(s.reader.options.ClaimIdle))
}

func (s *session) start() string {
	switch start := s.source.Start; {
	case start.Latest:
		return "$"
	case !start.Time.IsZero():
		return startAt(start.Time).String()
	}
	return "0-0"
}

func (s *session) create(ctx context.Context, start string) error {
	err := s.client.XGroupCreateMkStream(ctx, s.source.Topic, s.source.Group, start).Err()
	if err != nil {
		return fmt.Errorf("create group %q of stream %s/%s: %w", s.source.Group, s.source.DataCenter, s.source.Topic, err)
	}
	return nil
}

// recreate makes a group that is gone again. It begins with the first entry that the route may see: nobody knows what was acked.
func (s *session) recreate(ctx context.Context) error {
	existed, err := s.client.Exists(ctx, s.source.Topic).Result()
	if err != nil {
		return err
	}
	start := s.start()
	if s.source.Start.Latest {
		start = "0-0"
	}
	if err := s.create(ctx, start); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return err
	}
	s.source.Meter.Recreated.Add(1)
	s.source.Logger.Warn("the group of the stream was gone and is made again: entries may come twice",
		"stream", s.source.Topic, "group", s.source.Group, "start", start, "stream_existed", existed == 1)
	if existed == 0 {
		s.reader.mu.Lock()
		defer s.reader.mu.Unlock()
		clear(s.reader.held) // A new stream's entries may have the old ones' ids.
	}
	return nil
}

// read asks for the next batch behind an id of this consumer's pending entries, or for new entries, behind ">".
func (s *session) read(ctx context.Context, behind string, block time.Duration) ([]entry, error) {
	args := []any{"XREADGROUP", "GROUP", s.source.Group, s.reader.consumer, "COUNT", s.reader.batch.count()}
	if block > 0 {
		args = append(args, "BLOCK", block.Milliseconds())
	}
	reply, err := s.client.Do(ctx, append(args, "STREAMS", s.source.Topic, behind)...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stream %s/%s: %w", s.source.DataCenter, s.source.Topic, err)
	}
	entries, bytes, ok := parseEntries(reply)
	if !ok {
		return nil, fmt.Errorf("read stream %s/%s: the server's answer has a form that XREADGROUP never gives", s.source.DataCenter, s.source.Topic)
	}
	s.reader.batch.learn(len(entries), bytes)
	return entries, nil
}

// parseEntries reads [[stream, [[id, [name, value, …]], …]]]. It is done by hand since a field may be repeated, and their order counts.
func parseEntries(reply any) (entries []entry, bytes int64, ok bool) {
	streams, ok := reply.([]any)
	if !ok || len(streams) != 1 {
		return nil, 0, false
	}
	stream, ok := streams[0].([]any)
	if !ok || len(stream) != 2 {
		return nil, 0, false
	}
	list, ok := stream[1].([]any)
	if !ok {
		return nil, 0, false
	}
	entries = make([]entry, len(list))
	for i := range list {
		pair, ok := list[i].([]any)
		if !ok || len(pair) != 2 {
			return nil, 0, false
		}
		text, _ := pair[0].(string)
		if entries[i].id, ok = parseID(text); !ok {
			return nil, 0, false
		}
		values, _ := pair[1].([]any) // Nil for a deleted entry.
		entries[i].fields = make([]string, len(values))
		for k := range values {
			entries[i].fields[k], _ = values[k].(string)
			bytes += int64(len(entries[i].fields[k]))
		}
	}
	return entries, bytes, true
}

// hand gives entries to the lane, without those that it has already and those that were deleted.
func (s *session) hand(ctx context.Context, entries []entry) error {
	var gone []entryID
	for _, e := range entries {
		if len(e.fields) == 0 {
			gone = append(gone, e.id)
		}
	}
	if err := s.drop(ctx, gone); err != nil {
		return err
	}
	records := make([]*record.Record, 0, len(entries))
	for _, e := range entries {
		if len(e.fields) > 0 && s.reader.hold(e.id) {
			records = append(records, decode(s.reader.place(), e.id, e.fields))
		}
	}
	if len(records) == 0 {
		return nil
	}
	return s.inlet.Push(ctx, records...)
}

// drop acks entries that were trimmed or deleted while they were pending: they are lost at the source.
func (s *session) drop(ctx context.Context, ids []entryID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.reader.ack(ctx, s.client, ids); err != nil {
		return err
	}
	s.lost(len(ids))
	return nil
}

func (s *session) lost(n int) {
	s.source.Meter.Dropped.Add(int64(n))
	s.source.Logger.Warn("entries were deleted from the stream before they could be carried: a stream that is trimmed needs a higher limit",
		"stream", s.source.Topic, "group", s.source.Group, "entries", n)
}
