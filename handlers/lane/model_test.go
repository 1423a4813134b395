package lane_test

import (
	"time"

	"github.com/mqferry/mqferry/handlers/lane"
)

// standing is where a ticket of the model stands.
type standing int

const (
	waiting standing = iota
	entered          // Enter has returned; in a stock lane it may be on the wire already.
	pending
	settled
)

// ticketModel is what the rules say about one ticket, beside the ticket itself.
type ticketModel struct {
	lane.Ticket
	number     int
	held       int64
	standing   standing
	generation int
	fenced     bool // Refused or suspected, and not settled.
	refused    bool
	outcome    lane.Outcome

	inEnter bool // A goroutine is in Enter.
	entry   chan error

	sent      int  // How often it was put on the wire.
	onWire    bool // Its latest copy has no outcome yet.
	arrived   bool // Its latest copy is at the destination.
	rejected  bool // The destination has said no to its latest copy.
	seen      bool // Some copy is at the destination.
	mayFollow int  // Tickets up to this one may arrive before it: they were on the wire when the lane was told that it was refused, or its batch failed.
}

// laneModel is what the rules say about one lane, written from the rules and not from the code: it looks at every ticket, every time.
type laneModel struct {
	*lane.Lane
	budget   *lane.Budget
	total    int64 // Of the budget.
	window   int
	strict   bool
	stock    bool // Its publisher never calls Enqueue.
	stopFrom int  // The steps from which on it may be stopped, and closed.
	killFrom int

	tickets    []*ticketModel
	base       int
	prefix     int
	generation int
	probing    bool
	heldUntil  time.Time
	failures   int
	cut        int // One past the highest ticket that a stop lets finish.
	stopped    bool
	closed     bool
	hungry     bool // An Issue failed for want of memory, and nothing was given back since.

	link  *link // The connection that new copies go to.
	links []*link
}

func (l *laneModel) cancelled(t *ticketModel) bool {
	return t.standing != settled && (l.closed || l.stopped && t.number >= l.cut)
}

// mayGo tells whether the rules let t be sent now.
func (l *laneModel) mayGo(t *ticketModel) bool {
	if t.standing != waiting || l.cancelled(t) || time.Now().Before(l.heldUntil) {
		return false
	}
	for _, other := range l.tickets {
		out := other.standing == pending
		lower := other.number < t.number
		switch {
		case lower && (other.standing == waiting || other.standing == entered):
			return false // Tickets go in order.
		case lower && other.fenced:
			return false // Nothing above a refused ticket goes before that is settled.
		case out && other.generation != l.generation:
			return false // What is pending from before the break must resolve first.
		case out && (l.probing || l.strict):
			return false // One at a time.
		}
	}
	return true
}

// keepsTurn tells whether t, which has entered, may still be handed over.
func (l *laneModel) keepsTurn(t *ticketModel) bool {
	if l.closed || t.generation != l.generation {
		return false
	}
	for _, lower := range l.tickets[:t.number] {
		if lower.fenced {
			return false
		}
	}
	return true
}

// resolve is what an outcome does to the lane.
func (l *laneModel) resolve(t *ticketModel, o lane.Outcome) {
	current := t.generation == l.generation
	t.onWire = false
	if t.rejected {
		t.mayFollow = max(t.mayFollow, l.top())
	}
	switch o {
	case lane.Confirmed:
		if current {
			l.probing, l.failures, l.heldUntil = false, 0, time.Time{}
		}
		l.settle(t, o)
		return
	case lane.Refused:
		t.fenced, t.refused = true, true
	case lane.Failed:
		t.fenced = t.refused
		if current {
			l.generation++
			l.probing = true
			l.hold()
		}
	}
	t.standing = waiting
	if l.closed {
		t.held = 0
	}
}

// hold pauses the lane. In the model every pause is one tick: time stands still until the test moves it.
func (l *laneModel) hold() {
	if !l.closed {
		l.failures++
		l.heldUntil = time.Now().Add(tick)
	}
}

func (l *laneModel) settle(t *ticketModel, o lane.Outcome) {
	t.standing, t.outcome, t.fenced = settled, o, false
	if l.closed {
		t.held = 0
		return
	}
	for l.prefix < len(l.tickets) && l.tickets[l.prefix].standing == settled {
		l.prefix++
	}
}

func (l *laneModel) commit(n int) {
	for l.base < min(n, l.prefix) && !l.closed {
		l.tickets[l.base].held = 0
		l.base++
	}
}

func (l *laneModel) close() {
	l.closed = true
	for _, t := range l.tickets {
		if t.standing != pending {
			t.held = 0
		}
	}
}

// top is the highest ticket that was ever on the wire, or -1.
func (l *laneModel) top() int {
	top := -1
	for _, t := range l.tickets {
		if t.sent > 0 {
			top = t.number
		}
	}
	return top
}

func (l *laneModel) held() (bytes int64) {
	for _, t := range l.tickets {
		bytes += t.held
	}
	return bytes
}

func (l *laneModel) count(is func(*ticketModel) bool) (n int) {
	for _, t := range l.tickets {
		if is(t) {
			n++
		}
	}
	return n
}
