package memory

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// batch is how many records are handed to a lane at once.
const batch = 1024

// reader is a member of a group: it reads the lanes of a topic that no other member reads.
type reader struct {
	site   *Site
	source handlers.Source
	wake   chan struct{}

	mu    sync.Mutex
	lanes map[int]*reading
}

type reading struct {
	lane  int
	inlet *handlers.Inlet
	next  int // The position to read next.
}

func newReader(s *Site, source handlers.Source) *reader {
	return &reader{site: s, source: source, wake: make(chan struct{}, 1), lanes: map[int]*reading{}}
}

// Fetch opens the lanes that are free and reads them, until ctx ends.
func (r *reader) Fetch(ctx context.Context, in *handlers.Intake) error {
	r.site.attach(r)
	lost := false
	for ctx.Err() == nil {
		if err := r.site.reachable(); err != nil {
			r.source.Health.Down(err)
			lost = true
		} else {
			r.source.Health.Up()
			if lost {
				r.source.Meter.Reconnects.Add(1)
				lost = false
			}
			r.open(in)
			r.read()
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		}
	}
	return ctx.Err()
}

// open claims the lanes that nobody reads.
func (r *reader) open(in *handlers.Intake) {
	for lane, position := range r.site.claim(r) {
		inlet := in.Inlet(strconv.Itoa(lane), func() { notify(r.wake) })
		r.mu.Lock()
		r.lanes[lane] = &reading{lane: lane, inlet: inlet, next: position}
		r.mu.Unlock()
	}
}

// read hands each lane that has emitted everything its next records.
func (r *reader) read() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lanes {
		if l.inlet.Backlog() > 0 {
			continue
		}
		records := r.site.read(r.source.Topic, l.lane, l.next)
		if len(records) == 0 {
			continue
		}
		l.next += len(records)
		l.inlet.Offer(records...)
	}
}

// Commit moves the group's positions on, for all lanes or for none.
func (r *reader) Commit(_ context.Context, settled []handlers.Settled) error {
	r.mu.Lock()
	advances := make(map[int]int, len(settled))
	for _, s := range settled {
		for _, l := range r.lanes {
			if l.inlet == s.Inlet {
				advances[l.lane] = len(s.Records)
			}
		}
	}
	r.mu.Unlock()
	if len(advances) != len(settled) {
		return fmt.Errorf("commit to group %s: a lane was lost", r.source.Group)
	}
	return r.site.commit(r, advances)
}

// Close leaves the group.
func (r *reader) Close() error {
	r.mu.Lock()
	clear(r.lanes)
	r.mu.Unlock()
	r.site.detach(r)
	return nil
}

func (r *reader) lose(lane int) {
	l := r.reading(lane)
	if l == nil {
		return
	}
	l.inlet.Close()
	r.mu.Lock()
	delete(r.lanes, lane)
	r.mu.Unlock()
	r.site.release(r, lane)
}

func (r *reader) revoke(ctx context.Context, lane int) error {
	l := r.reading(lane)
	if l == nil {
		return nil
	}
	err := l.inlet.Drain(ctx)
	r.lose(lane)
	return err
}

func (r *reader) reading(lane int) *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lanes[lane]
}

// attach makes r a member, to be woken when something is new in its topic.
func (s *Site) attach(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topic(r.source.Topic, 1).readers[r] = struct{}{}
}

// detach frees whatever r reads for the other members.
func (s *Site) detach(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(r.source.Topic, 1)
	delete(t.readers, r)
	for _, p := range t.groups {
		if p.owner == r {
			p.owner = nil
		}
	}
	s.change(t)
}

// claim makes r the owner of all lanes that have none, and gives their positions.
func (s *Site) claim(r *reader) map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(r.source.Topic, 1)
	var claimed map[int]int
	for lane := range t.lanes {
		p := t.groupIn(r.source.Group, lane, r.source.Start)
		if p.owner != nil {
			continue
		}
		p.owner = r
		if claimed == nil {
			claimed = map[int]int{}
		}
		claimed[lane] = p.position
	}
	return claimed
}

func (s *Site) release(r *reader, lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(r.source.Topic, 1)
	if p := t.groups[seat{r.source.Group, lane}]; p != nil && p.owner == r {
		p.owner = nil
	}
	s.change(t)
}

func (s *Site) owner(topic, group string, lane int) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[topic]
	if !ok || t.groups[seat{group, lane}] == nil {
		return nil
	}
	return t.groups[seat{group, lane}].owner
}

func (s *Site) read(topic string, lane, position int) []*record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[topic].lanes[lane].read(position, batch)
}

// commit moves positions on by so many messages of each lane.
func (s *Site) commit(r *reader, advances map[int]int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.commitError(); err != nil {
		return err
	}
	t := s.topics[r.source.Topic]
	for lane, n := range advances {
		t.groups[seat{r.source.Group, lane}].position += n
	}
	s.change(t)
	return nil
}
