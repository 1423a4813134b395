package ledger

import (
	"maps"
	"slices"
	"sync"
)

// Ledger holds the books of any number of lanes. All methods are safe for concurrent use.
type Ledger struct {
	mu    sync.RWMutex
	lanes map[string]*lane
	next  map[string]uint64 // by lane, for Next
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{lanes: map[string]*lane{}, next: map[string]uint64{}}
}

// Produced enters that a message was given to the source. Numbers count up in each lane, without holes; one that is
// entered again counts once. Produced and Arrived of a message may come in either order.
func (l *Ledger) Produced(lane string, seq, fingerprint uint64) {
	l.lane(lane).produced(seq, fingerprint)
}

// Arrived enters that a message came out at the destination. It is to be called in the order of arrival of each lane.
func (l *Ledger) Arrived(lane string, seq, fingerprint uint64) {
	l.lane(lane).arrived(seq, fingerprint)
}

// Stranger enters that something came out at the destination that does not say which message it is; detail says what it
// was instead. It counts as unknown.
func (l *Ledger) Stranger(lane, detail string) {
	l.lane(lane).stranger(detail)
}

// Check adds up all lanes as they stand. It may be called at any time; what is still on its way counts as lost.
func (l *Ledger) Check() Report {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var r Report
	for _, name := range slices.Sorted(maps.Keys(l.lanes)) {
		r.add(l.lanes[name].report(name))
	}
	r.sortFindings()
	return r
}

// Gap is a run of consecutive messages of one lane that were produced and have not arrived.
type Gap struct{ First, Last uint64 }

// Gaps gives what is lost of a lane as runs, in order; for tests in which somebody threw messages away on purpose.
func (l *Ledger) Gaps(lane string) []Gap {
	return l.lane(lane).gaps()
}

func (l *Ledger) lane(name string) *lane {
	l.mu.RLock()
	found := l.lanes[name]
	l.mu.RUnlock()
	if found != nil {
		return found
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes[name] == nil {
		l.lanes[name] = newLane()
	}
	return l.lanes[name]
}
