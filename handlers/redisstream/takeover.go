package redisstream

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
)

// pendingRetry is how often entries of other consumers are looked at while the reader waits for them.
const pendingRetry = time.Second

// found is what a look at the group's pending entries gave.
type found struct {
	first   entryID // The lowest that this consumer has now and has not handed over.
	any     bool    // There is one.
	foreign int     // Entries of others that may still be at work on them.
}

// takeOver hands over everything of the group that is pending and not handed over yet, oldest first, whoever read it. For entries
// of consumers that may be alive it waits up to wait.
func (s *session) takeOver(ctx context.Context, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		f, err := s.claim(ctx)
		if err != nil {
			return err
		}
		left := time.Until(deadline)
		if f.foreign > 0 && left > 0 {
			s.source.Health.Up()
			handlers.Pause(ctx, min(left, pendingRetry))
			continue
		}
		if err := s.handPending(ctx, f); err != nil {
			return err
		}
		s.swept = time.Now()
		if f.foreign == 0 {
			s.reader.mu.Lock()
			s.reader.predecessor = ""
			s.reader.mu.Unlock()
		}
		return nil
	}
}

// claim goes through the pending entries of the group, and makes those its own whose consumer is gone.
func (s *session) claim(ctx context.Context) (found, error) {
	var f found
	s.reader.mu.Lock()
	predecessor := s.reader.predecessor
	s.reader.mu.Unlock()
	for from := "-"; ; {
		page, err := s.client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: s.source.Topic, Group: s.source.Group, Start: from, End: "+", Count: ackChunk,
		}).Result()
		if err != nil {
			return f, fmt.Errorf("pending entries of stream %s/%s: %w", s.source.DataCenter, s.source.Topic, err)
		}
		if err := s.claimPage(ctx, page, predecessor, &f); err != nil {
			return f, err
		}
		if len(page) < ackChunk {
			return f, nil
		}
		last, ok := parseID(page[len(page)-1].ID)
		if !ok {
			return f, fmt.Errorf("pending entries of stream %s/%s: %q is not an id", s.source.DataCenter, s.source.Topic, page[len(page)-1].ID)
		}
		from = last.after().String()
	}
}

func (s *session) claimPage(ctx context.Context, page []redis.XPendingExt, predecessor string, f *found) error {
	var left, idle []string
	for _, p := range page {
		id, ok := parseID(p.ID)
		switch {
		case !ok:
		case p.Consumer == s.reader.consumer:
			s.find(id, f)
		case p.Consumer == predecessor:
			left = append(left, p.ID)
		case p.Idle >= time.Duration(s.reader.options.ClaimIdle):
			idle = append(idle, p.ID)
		default:
			f.foreign++
		}
	}
	claimed, err := s.claimIDs(ctx, left, 0, f)
	if err != nil {
		return err
	}
	// The server forgets a deleted entry when it is claimed.
	if n := len(left) - claimed; n > 0 {
		s.lost(n)
	}
	_, err = s.claimIDs(ctx, idle, time.Duration(s.reader.options.ClaimIdle), f)
	return err
}

func (s *session) claimIDs(ctx context.Context, ids []string, idle time.Duration, f *found) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	claimed, err := s.client.XClaimJustID(ctx, s.reader.claimOf(ids, idle)).Result()
	if err != nil {
		return 0, fmt.Errorf("claim entries of stream %s/%s: %w", s.source.DataCenter, s.source.Topic, err)
	}
	for _, text := range claimed {
		if id, ok := parseID(text); ok {
			s.find(id, f)
		}
	}
	return len(claimed), nil
}

func (s *session) find(id entryID, f *found) {
	if !s.reader.holds(id) && (!f.any || id.less(f.first)) {
		f.first, f.any = id, true
	}
}

// handPending reads this consumer's pending entries from the first that was not handed over.
func (s *session) handPending(ctx context.Context, f found) error {
	if !f.any {
		return nil
	}
	for behind := f.first.before(); ; {
		entries, err := s.read(ctx, behind.String(), 0)
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := s.hand(ctx, entries); err != nil {
			return err
		}
		behind = entries[len(entries)-1].id
	}
}
