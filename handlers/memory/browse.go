package memory

import (
	"context"
	"strconv"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

var _ handlers.Browser[DestinationConfig] = (*connection)(nil)

// Browse looks through what a topic has kept.
func (c *connection) Browse(_ context.Context, d handlers.Destination, _ DestinationConfig) (handlers.Browsing, error) {
	if err := c.site.reachable(); err != nil {
		return nil, err
	}
	return &browsing{site: c.site, topic: d.Topic, left: c.site.Messages(d.Topic)}, nil
}

type browsing struct {
	site  *Site
	topic string
	left  []*record.Record
}

func (b *browsing) Next(_ context.Context, n int) ([]*record.Record, error) {
	if err := b.site.reachable(); err != nil {
		return nil, err
	}
	n = min(n, len(b.left))
	next := b.left[:n:n]
	b.left = b.left[n:]
	return next, nil
}

func (b *browsing) Remove(_ context.Context, records []*record.Record) error {
	s := b.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.downError(); err != nil {
		return err
	}
	t, ok := s.topics[b.topic]
	if !ok {
		return nil
	}
	for _, r := range records {
		lane, _ := strconv.Atoi(r.Source.Lane)
		t.lanes[lane].remove(r.Source.Position)
	}
	s.change(t)
	return nil
}

func (b *browsing) Close() error { return nil }

// remove takes a message out of what Messages gives. Whoever subscribed still reads it.
func (l *stored) remove(position string) {
	if l.removed == nil {
		l.removed = map[string]struct{}{}
	}
	l.removed[position] = struct{}{}
}

// kept are the records that nobody has removed.
func (l *stored) kept() []*record.Record {
	kept := make([]*record.Record, 0, len(l.records))
	for _, r := range l.records {
		if _, removed := l.removed[r.Source.Position]; !removed {
			kept = append(kept, r)
		}
	}
	return kept
}
