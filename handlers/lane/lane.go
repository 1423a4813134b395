package lane

import (
	"errors"
	"sync"
	"time"
)

// ErrCancelled is returned to a ticket that will not be sent any more: its lane was closed, or stopped before the ticket was first sent.
var ErrCancelled = errors.New("the lane is closed")

// ErrSettled is returned to a ticket that wants to be sent although it is settled already.
var ErrSettled = errors.New("the message is settled already")

// Settings are what a lane is made with.
type Settings struct {
	Window  int     // Most messages in flight, from the committed prefix on; less than 1 means 1.
	Strict  bool    // One message on the wire at a time.
	Budget  *Budget // The lane's part of the memory; nil means no limit in bytes.
	Backoff Backoff // The pause before a probe.
	// Concurrency is how many tickets may have a slot at once: see TakeSlot. Zero means no limit.
	Concurrency int
}

// Lane is one ordered sub-stream. Make it with New.
type Lane struct {
	settings Settings
	signal   chan struct{}

	mu      sync.Mutex
	tickets ring
	base    uint64 // Committed: every ticket below has left the window.
	prefix  uint64 // Settled: every ticket below may be acked at the source.
	turn    uint64 // The lowest ticket that is waiting or entered; next if there is none.
	next    uint64 // The number of the next ticket to be given out.

	generation uint64
	probing    bool // One at a time, until one sent in this generation is confirmed.
	pending    int  // Handed over, outcome unknown; while probing, what is left of an earlier generation counts too.
	fence      uint64
	fenced     int

	moved time.Time // When the settled prefix last moved, or something came into the empty window.
	slots slots

	failures  int
	notBefore time.Time
	timer     *time.Timer

	cut     uint64 // One past the highest ticket that ever returned from Enter, or was parked, or is being parked.
	stopped bool
	closed  bool
	ending  chan struct{} // Closed when it is stopped or closed.
}

// noFence is the fence of a lane without refused tickets.
const noFence = ^uint64(0)

// New makes an empty lane.
func New(s Settings) *Lane {
	s.Window = max(s.Window, 1)
	return &Lane{settings: s, signal: make(chan struct{}, 1), fence: noFence, slots: slots{free: s.Concurrency}, ending: make(chan struct{})}
}

// Signal receives a value after the settled prefix moved, the window may have room again, or the lane was stopped or closed.
// It is for one reader, who looks at all of these then: several events may be one signal.
func (l *Lane) Signal() <-chan struct{} { return l.signal }

func (l *Lane) notify() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Issue makes t the next ticket of the lane, for a message of size bytes, and reports whether the window had room for it. A lane
// with nothing in flight always has room for one message, however large. A stopped or closed lane issues none.
func (l *Lane) Issue(t *Ticket, size int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.closed || l.next-l.base >= uint64(l.settings.Window) {
		return false
	}
	if !l.settings.Budget.acquire(size, l.signal) {
		return false
	}
	*t = Ticket{lane: l, number: l.next, size: size, wake: make(chan struct{}, 1)}
	if l.prefix == l.next {
		l.moved = time.Now()
	}
	l.tickets.push(t)
	l.next++
	return true
}

// Settled tells how far the lane is settled: every ticket with a lower number is. A closed lane stays where it was.
func (l *Lane) Settled() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prefix
}

// Committed tells the lane that the source has forgotten every ticket below n, which makes room in the window.
func (l *Lane) Committed(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.prefix)
	if l.closed || l.base >= n {
		return
	}
	var freed int64
	for l.base < n {
		freed += l.tickets.pop().size
		l.base++
	}
	l.settings.Budget.release(freed)
	l.notify()
}

// Stop ends the intake. The highest ticket that was ever sent or parked, or is being parked, and all below it go on until they are
// settled, so that a clean stop repeats nothing; those above it are cancelled. It returns at once; Drained tells when the lane has come to rest.
func (l *Lane) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	l.stopped = true
	l.wakeAll()
	l.notify()
}

// Drained reports whether the lane is stopped, and everything that a stop lets finish is settled and committed.
func (l *Lane) Drained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped && l.prefix >= l.cut && l.base == l.prefix
}

// Close gives the lane up: whatever waits is cancelled, and the settled prefix moves no more. Tickets that are pending keep their
// memory until their outcome is known.
func (l *Lane) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.end()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	var freed int64
	for t := range l.tickets.from(0) {
		if t.state != pending {
			freed += t.size
			t.size = 0
		}
	}
	l.settings.Budget.release(freed)
	l.wakeAll()
	l.notify()
}

// Ending is closed when the lane is stopped or closed: whoever waits for something else then asks the ticket whether it is Cancelled.
func (l *Lane) Ending() <-chan struct{} { return l.ending }

func (l *Lane) end() {
	if !l.stopped && !l.closed {
		close(l.ending)
	}
}

// State is what a lane is doing, for people and metrics.
type State struct {
	InFlight  int       // Given out and not yet committed.
	Unsettled int       // Given out and beyond the settled prefix.
	Since     time.Time // Since when the settled prefix has not moved, while something is unsettled.
	OnWire    int       // Handed to the publisher, outcome unknown.
	Probing   bool      // A failure on the way is being waited out.
	Held      bool      // A refused message holds the lane.
	Failures  int       // Failures on the way since the last confirm.
	Stopped   bool
	Closed    bool
}

// State tells what the lane is doing now.
func (l *Lane) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{
		InFlight:  int(l.next - l.base),
		Unsettled: int(l.next - l.prefix),
		Since:     l.moved,
		OnWire:    l.pending,
		Probing:   l.probing,
		Held:      l.fenced > 0,
		Failures:  l.failures,
		Stopped:   l.stopped,
		Closed:    l.closed,
	}
}

// mayEnter is the order of the lane: t is the lowest that waits, and nothing forbids to send it now.
func (l *Lane) mayEnter(t *Ticket) bool {
	switch {
	case t.number != l.turn || t.state != waiting:
		return false
	case l.fence < t.number:
		return false
	case (l.probing || l.settings.Strict) && l.pending > 0:
		return false
	}
	return l.notBefore.IsZero() || !time.Now().Before(l.notBefore)
}

// cancelled reports whether t will not be sent any more.
func (l *Lane) cancelled(t *Ticket) bool {
	return l.closed || l.stopped && t.number >= l.cut
}

// back makes t wait for its turn again.
func (l *Lane) back(t *Ticket) {
	t.state = waiting
	l.turn = min(l.turn, t.number)
}

// settle ends t with outcome o and moves the prefix and the turn on.
func (l *Lane) settle(t *Ticket, o Outcome) {
	t.state, t.outcome = settled, o
	l.unfence(t)
	l.passTurn()
	if l.closed {
		l.settings.Budget.release(t.size)
		t.size = 0
		return
	}
	if t.number != l.prefix {
		return
	}
	for l.prefix < l.next && l.tickets.at(l.prefix-l.base).state == settled {
		l.prefix++
	}
	l.moved = time.Now()
	l.giveSlots()
	l.notify()
}

// passTurn moves the turn on to the lowest ticket that waits.
func (l *Lane) passTurn() {
	for l.turn < l.next {
		s := l.tickets.at(l.turn - l.base).state
		if s == waiting || s == entered {
			return
		}
		l.turn++
	}
}

// wakeTurn wakes the one ticket whose turn it is, if it is there and may go.
func (l *Lane) wakeTurn() {
	if l.turn >= l.next {
		return
	}
	if t := l.tickets.at(l.turn - l.base); l.mayEnter(t) {
		t.notify()
	}
}

func (l *Lane) wakeAll() {
	for t := range l.tickets.from(0) {
		t.notify()
	}
}
