package handlers

import (
	"sync/atomic"
	"time"
)

// Ending is how a message came to its end on a route.
type Ending uint8

// The endings.
const (
	Forwarded Ending = iota // The destination confirmed it.
	Parked                  // The poison queue confirmed it.
	Filtered                // A middleware dropped it on purpose.
	Looped                  // It had been at the destination before.
	Duplicate               // A copy of it was delivered already.
	endings
)

// String names the ending as metrics do.
func (e Ending) String() string {
	return [...]string{"forwarded", "parked", "filtered", "looped", "duplicate"}[e]
}

// Endings lists all of them.
func Endings() []Ending { return []Ending{Forwarded, Parked, Filtered, Looped, Duplicate} }

// Meter counts what happens on one route, since the process started. All fields are safe for concurrent use.
type Meter struct {
	Fetched     atomic.Int64 // Messages read from the source, redeliveries included.
	Confirmed   atomic.Int64 // Messages that the destination confirmed.
	Dropped     atomic.Int64 // Messages dropped on purpose, or lost at the source before they could be read.
	Committed   atomic.Int64 // Messages acked at the source.
	Failed      atomic.Int64 // Attempts that failed on the way.
	Refused     atomic.Int64 // Attempts that the destination refused.
	Nacked      atomic.Int64 // Messages whose chain failed, and that were emitted again.
	Reconnects  atomic.Int64 // Connections made again, source and destination.
	Recreated   atomic.Int64 // Groups and topics found missing while running, and made again or looked up anew.
	CommitFails atomic.Int64 // Acks to the source that had to be repeated.
	NoID        atomic.Int64 // Messages that could not be told from copies, since they have no id.
	Restarts    atomic.Int64 // Times the route was started again after it ended by itself.

	ended [endings]struct{ count, nanoseconds atomic.Int64 }
}

// End counts a message that came to its end, and how long that took since it was emitted.
func (m *Meter) End(e Ending, took time.Duration) {
	m.ended[e].count.Add(1)
	m.ended[e].nanoseconds.Add(int64(took))
}

// Ended tells how many messages came to that end, and how long they took in all.
func (m *Meter) Ended(e Ending) (count int64, took time.Duration) {
	return m.ended[e].count.Load(), time.Duration(m.ended[e].nanoseconds.Load())
}
