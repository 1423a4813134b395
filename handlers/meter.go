package handlers

import "sync/atomic"

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
	Restarts    atomic.Int64 // Times the route was started again after it ended by itself.
}
