package memory

import (
	"context"
	"sync"

	"github.com/mqferry/mqferry/handlers/record"
)

// Site is one broker of a Store: topics, positions of groups, and the faults that were ordered. It is safe for concurrent use.
type Site struct {
	name string

	mu      sync.Mutex
	changed sync.Cond
	version uint64
	waiters int
	topics  map[string]*topic
	faults  faults
}

func newSite(name string) *Site {
	s := &Site{name: name, topics: map[string]*topic{}}
	s.changed.L = &s.mu
	return s
}

// Produce appends records to a lane of topic, as an application would, and makes the topic and its lanes up to that one
// if they are missing. The site keeps copies: they get their place as Source, and an id derived from it when they have none.
func (s *Site) Produce(topic string, lane int, records ...*record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(topic, lane+1)
	for _, r := range records {
		t.lanes[lane].append(t.place(r, lane))
	}
	s.change(t)
}

// Generate gives every one of a topic's lanes count messages that are not kept but made when they are read. It replaces the topic, and is to be
// called before anybody subscribes. Next is called with the lane and the position, again for a redelivery; it may return the same record each
// time, and must not use the site.
func (s *Site) Generate(topic string, lanes, count int, next func(lane, position int) *record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.topics, topic)
	t := s.topic(topic, lanes)
	for i := range t.lanes {
		t.lanes[i].count = count
		t.lanes[i].generate = func(position int) *record.Record { return next(i, position) }
	}
}

// Messages gives what a topic has kept: lane by lane, each in the order of arrival.
func (s *Site) Messages(topic string) []*record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[topic]
	if !ok {
		return nil
	}
	var all []*record.Record
	for _, l := range t.lanes {
		all = append(all, l.kept()...)
	}
	return all
}

// Count tells how many messages have arrived in a topic, kept or not.
func (s *Site) Count(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[topic]
	if !ok {
		return 0
	}
	n := 0
	for _, l := range t.lanes {
		n += l.count
	}
	return n
}

// Committed gives the position of a group in a lane: how many of its messages the group has acked.
func (s *Site) Committed(topic, group string, lane int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[topic]
	if !ok || t.groups[seat{group, lane}] == nil {
		return 0
	}
	return t.groups[seat{group, lane}].position
}

// Await blocks until reached returns true or ctx ends, and returns the error of ctx then. It calls reached, which may use the site, after each
// change of the site.
func (s *Site) Await(ctx context.Context, reached func() bool) error {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters++
	defer func() { s.waiters-- }()
	for {
		seen := s.version
		s.mu.Unlock()
		done := reached()
		s.mu.Lock()
		if done {
			return nil
		}
		for s.version == seen && ctx.Err() == nil {
			s.changed.Wait()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// change wakes whoever waits for something new in t, or anywhere.
func (s *Site) change(t *topic) {
	s.version++
	if s.waiters > 0 {
		s.changed.Broadcast()
	}
	for r := range t.readers {
		notify(r.wake)
	}
}

func (s *Site) topic(name string, lanes int) *topic {
	t, ok := s.topics[name]
	if !ok {
		t = &topic{site: s.name, name: name, groups: map[seat]*place{}, readers: map[*reader]struct{}{}}
		s.topics[name] = t
	}
	for len(t.lanes) < lanes {
		t.lanes = append(t.lanes, &stored{})
	}
	return t
}

// store appends a published record, or only counts it.
func (s *Site) store(name string, r *record.Record, d DestinationConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[name]
	if !ok {
		t = s.topic(name, d.Lanes)
	}
	lane := t.laneOf(r)
	if d.Keep {
		t.lanes[lane].append(t.place(r, lane))
	} else {
		t.lanes[lane].count++
	}
	s.change(t)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
