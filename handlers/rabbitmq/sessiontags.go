package rabbitmq

import (
	"sync"
	"time"
)

// perRecord is what a fetched record costs beside its bytes.
const perRecord = 512

// tags are the deliveries of one consumer that are not acked, in their order. Safe for concurrent use.
type tags struct {
	limit int64 // Of the bytes that wait; 0 means none.

	mu      sync.Mutex
	all     []delivered // Not acked, oldest first.
	waiting int         // How many of the youngest of them are counted in bytes.
	bytes   int64
	last    time.Time     // When something came or was acked.
	moved   chan struct{} // Some were acked.
}

type delivered struct {
	tag  uint64
	size int64
}

func newTags(limit int64) *tags { return &tags{limit: limit, moved: make(chan struct{}, 1)} }

// add notes a delivery that is about to be handed over.
func (t *tags) add(tag uint64, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := delivered{tag: tag, size: int64(size) + perRecord}
	t.all = append(t.all, d)
	t.last = time.Now()
	t.waiting++
	t.bytes += d.size
}

// full reports whether those that wait, the backlog youngest, take more than the limit.
func (t *tags) full(backlog int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.waiting > backlog {
		t.bytes -= t.all[len(t.all)-t.waiting].size
		t.waiting--
	}
	return t.limit > 0 && t.bytes > t.limit
}

// oldest gives the tag of the n-th oldest, n counted from 1.
func (t *tags) oldest(n int) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[n-1].tag
}

// acked forgets the n oldest.
func (t *tags) acked(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.waiting > len(t.all)-n {
		t.bytes -= t.all[len(t.all)-t.waiting].size
		t.waiting--
	}
	if t.all = t.all[n:]; len(t.all) == 0 {
		t.all = nil
	}
	t.last = time.Now()
	t.notify()
}

// notify wakes whoever waits for something to have moved.
func (t *tags) notify() {
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

func (t *tags) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// latest tells when something came or was acked last.
func (t *tags) latest() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}
