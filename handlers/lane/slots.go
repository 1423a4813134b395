package lane

import (
	"cmp"
	"slices"
)

// slots bound how many tickets of a lane are in its middleware at once.
type slots struct {
	free  int
	next  uint64    // The lowest ticket that never had one.
	queue []*Ticket // Those that wait for one, lowest first.
}

// TakeSlot waits for one of the lane's slots. They are given out in the order of the tickets, and first to those that had one before. A lane without a
// Concurrency has a slot for everyone. It returns ErrCancelled when the ticket will not be sent any more.
func (t *Ticket) TakeSlot() error {
	l := t.lane
	if l.settings.Concurrency <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.slot {
		return nil
	}
	l.enqueueForSlot(t)
	l.giveSlots()
	for !t.slot {
		if l.cancelled(t) {
			l.slots.queue = slices.DeleteFunc(l.slots.queue, func(other *Ticket) bool { return other == t })
			l.slots.next = max(l.slots.next, t.number+1) // It does not come again.
			l.giveSlots()
			return ErrCancelled
		}
		t.wait()
	}
	return nil
}

// FreeSlot gives the slot back, if the ticket has one.
func (t *Ticket) FreeSlot() {
	l := t.lane
	if l.settings.Concurrency <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.slot {
		t.slot = false
		l.slots.free++
		l.giveSlots()
	}
}

func (l *Lane) enqueueForSlot(t *Ticket) {
	at, _ := slices.BinarySearchFunc(l.slots.queue, t, func(a, b *Ticket) int { return cmp.Compare(a.number, b.number) })
	l.slots.queue = slices.Insert(l.slots.queue, at, t)
}

// giveSlots gives what is free to the lowest, as long as none below it is still to come.
func (l *Lane) giveSlots() {
	s := &l.slots
	for s.free > 0 && len(s.queue) > 0 {
		t := s.queue[0]
		if t.number > max(s.next, l.prefix) {
			return
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.next = max(s.next, t.number+1)
		s.free--
		t.slot = true
		t.notify()
	}
}
