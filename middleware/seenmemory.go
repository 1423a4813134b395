package middleware

import (
	"context"
	"sync"
	"time"
)

// seenMemory remembers ids in the memory of the process: the newest, for a time.
type seenMemory struct {
	most int
	ttl  time.Duration

	mu    sync.Mutex
	until map[string]time.Time
	order []string // Oldest first; an id that was noted again is there twice.
}

func newSeenMemory(most int, ttl time.Duration) *seenMemory {
	return &seenMemory{most: most, ttl: ttl, until: map[string]time.Time{}}
}

func (s *seenMemory) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.until[id]
	return ok && time.Now().Before(until)
}

func (s *seenMemory) note(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.until[id] = now.Add(s.ttl)
	s.order = append(s.order, id)
	for len(s.order) > 0 {
		oldest := s.order[0]
		if len(s.order) <= s.most && now.Before(s.until[oldest]) {
			return
		}
		s.order = s.order[1:]
		delete(s.until, oldest)
	}
}

func (s *seenMemory) seen(_ context.Context, id string) (bool, error) { return s.has(id), nil }

func (s *seenMemory) mark(_ context.Context, id string) error {
	s.note(id)
	return nil
}

func (s *seenMemory) close() error { return nil }
