package lane

// Outcome is what became of a ticket.
type Outcome uint8

// The outcomes. Confirmed, Dropped and Parked settle a ticket; Failed and Refused let it wait for its turn again.
const (
	Unsettled Outcome = iota // Nothing yet.
	Confirmed                // The destination has the message durably.
	Dropped                  // A rule of the route dropped it on purpose.
	Parked                   // The poison queue has it durably.
	Failed                   // It failed on the way, or nobody can know: the connection is gone.
	Refused                  // The destination said no to this message; the way itself is good.
)

// state is where a ticket stands.
type state uint8

const (
	waiting state = iota // Not handed to the publisher, or back from there.
	entered              // It has its turn, and is about to be handed over.
	pending              // Handed over, outcome unknown.
	settled
)

// Ticket is the place of one message in its lane. Lane.Issue fills it in. Its methods are safe for concurrent use, but only one
// goroutine at a time may be in Enter, Await or TakeSlot.
type Ticket struct {
	lane       *Lane
	number     uint64
	size       int64
	wake       chan struct{}
	generation uint64
	state      state
	outcome    Outcome
	fenced     bool // Nothing above it is sent until it is settled.
	refused    bool
	slot       bool // It has one of the lane's slots.
}

// Number is the ticket's place in its lane: 0, 1, 2, … in the order of fetching.
func (t *Ticket) Number() uint64 { return t.number }

// Lane is the lane that the ticket is of.
func (t *Ticket) Lane() *Lane { return t.lane }

// Outcome tells how the ticket was settled, or Unsettled.
func (t *Ticket) Outcome() Outcome {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	return t.outcome
}

// Enter waits until it is the ticket's turn to be handed to the publisher. It returns ErrCancelled when that will not
// come, and ErrSettled when there is nothing left to send. While the ticket is still pending from an earlier attempt, it waits.
func (t *Ticket) Enter() error {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state == entered { // An earlier attempt panicked before it handed anything over.
		l.back(t)
	}
	for {
		switch {
		case t.state == settled:
			return ErrSettled
		case l.cancelled(t):
			return ErrCancelled
		case l.mayEnter(t):
			t.state, t.generation = entered, l.generation
			l.cut = max(l.cut, t.number+1)
			return nil
		}
		t.wait()
	}
}

// Enqueue calls put, which hands the message to the publisher's ordered send buffer, and makes the ticket pending: in one step,
// so that no failure can come between. It then wakes the next ticket. It reports false, and put was not called, when the
// ticket lost its turn since Enter returned: Enter again. Put must not block, and must not call back into the lane.
func (t *Ticket) Enqueue(put func()) bool {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != entered {
		return false
	}
	if l.closed || t.generation != l.generation || l.fence < t.number {
		l.back(t)
		return false
	}
	put()
	t.state = pending
	l.pending++
	l.passTurn()
	l.wakeTurn()
	return true
}

// Resolve tells the lane what became of a ticket that was sent: Confirmed, Failed or Refused. For a publisher that never
// calls Enqueue it follows Enter directly. A second word about the same attempt changes nothing.
func (t *Ticket) Resolve(o Outcome) {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != entered && t.state != pending {
		return
	}
	current := t.generation == l.generation
	if t.state == pending {
		l.pending--
	}
	switch o {
	case Confirmed:
		if current {
			l.opened()
		}
		l.settle(t, Confirmed)
	case Refused:
		t.refused = true
		l.back(t)
		l.raise(t)
	default:
		l.back(t)
		if !t.refused { // What was only suspected is searched no more; from here the probes go before it.
			l.unfence(t)
		}
		if current {
			l.breakGeneration()
		}
	}
	l.freeIfClosed(t)
	t.notify()
	l.wakeTurn()
}

// Await waits while the ticket is pending.
func (t *Ticket) Await() {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	for t.state == pending {
		t.wait()
	}
}

// Suspend keeps everything above the ticket from being sent until the ticket is settled, or fails on the way, while its publisher
// looks for the one message at fault among several that failed together. The ticket stays pending: its publisher sends it again by itself.
func (t *Ticket) Suspend() {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state == pending {
		l.raise(t)
	}
}

// Settle ends a ticket that is not sent: Dropped or Parked, or Confirmed by a consumer that has no publisher. It reports false
// when the ticket is settled already, or pending: what may be stored must not be given up.
func (t *Ticket) Settle(o Outcome) bool {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != waiting && t.state != entered {
		return false
	}
	if o != Dropped && !l.stopped {
		l.cut = max(l.cut, t.number+1)
	}
	l.settle(t, o)
	t.notify()
	l.wakeTurn()
	return true
}

// Parking tells the lane that the ticket is about to be parked: a stop that comes now lets it finish, and everything below it, so that the
// parked copy is not made twice. It reports false when the ticket is not to be parked: cancelled, settled, or still pending. After
// true comes Settle, or Enter again when it could not be parked.
func (t *Ticket) Parking() bool {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != waiting && t.state != entered || l.cancelled(t) {
		return false
	}
	l.cut = max(l.cut, t.number+1)
	return true
}

// Cancelled reports whether the ticket will not be sent any more.
func (t *Ticket) Cancelled() bool {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	return t.state != settled && t.lane.cancelled(t)
}

// freeIfClosed gives the memory of a ticket back that kept it over the lane's close.
func (l *Lane) freeIfClosed(t *Ticket) {
	if l.closed {
		l.settings.Budget.release(t.size)
		t.size = 0
	}
}

// wait blocks until somebody calls notify. The lane's lock is held on entry and on return.
func (t *Ticket) wait() {
	t.lane.mu.Unlock()
	<-t.wake
	t.lane.mu.Lock()
}

func (t *Ticket) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
