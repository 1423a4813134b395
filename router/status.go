package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// Phase is where a route is in its life.
type Phase string

// The phases.
const (
	Waiting  Phase = "waiting" // For its brokers to be reachable.
	Running  Phase = "running"
	Stopping Phase = "stopping" // Letting settle what is in flight.
	Stopped  Phase = "stopped"
)

// How long a lane may have messages and settle none before its route counts as stalled: in general, and when a message was refused.
const (
	stallAfter = 30 * time.Second
	heldAfter  = 2 * time.Second
)

// Status is what a route is doing.
type Status struct {
	Route       string
	From, To    string // datacenter/topic
	PoisonQueue string // The same; empty where nothing is parked.
	Phase       Phase
	Source      End
	Destination End
	Poison      End // Zero where nothing is parked; never used counts as up.
	Meter       *handlers.Meter
	Lanes       map[string]lane.State
}

// End is what one end of a route knows of its broker.
type End struct {
	Up    bool
	Since time.Time // Since when it is up, or down.
	Error error     // The last one, while it is down.
	// Refusal is the last no that the broker said to a message. It tells what holds a lane, if one is held.
	Refusal   error
	RefusedAt time.Time
}

// InFlight counts the messages that were fetched and are not yet acked at the source.
func (s Status) InFlight() int {
	n := 0
	for _, l := range s.Lanes {
		n += l.InFlight
	}
	return n
}

// Trouble says why the route makes no progress, or may soon make none; it is empty when all is well: both ends are connected, and every lane
// that has messages settles them.
func (s Status) Trouble() string {
	switch {
	case s.Phase != Running:
		return s.waitingFor()
	case !s.Destination.Up:
		return fmt.Sprintf("destination %s is down%s", s.To, because(s.Destination.Error))
	case !s.Source.Up:
		return fmt.Sprintf("source %s is down%s", s.From, because(s.Source.Error))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lanes)) {
		l := s.Lanes[name]
		still := time.Since(l.Since)
		switch {
		case l.Unsettled == 0:
		case s.PoisonQueue != "" && !s.Poison.Up && still > heldAfter:
			return fmt.Sprintf("lane %q waits, %d messages: one cannot be parked in %s, which is down%s", name, l.Unsettled, s.PoisonQueue, because(s.Poison.Error))
		case l.Held && still > heldAfter:
			return fmt.Sprintf("lane %q is held by a message that was refused, %d wait%s", name, l.Unsettled, because(s.Destination.Refusal))
		case still > stallAfter:
			var why error
			if s.Destination.RefusedAt.After(l.Since) {
				why = s.Destination.Refusal
			}
			return fmt.Sprintf("lane %q is stalled: its %d messages have not moved for %v%s", name, l.Unsettled, still.Round(time.Second), because(why))
		}
	}
	return ""
}

func (s Status) waitingFor() string {
	why := []string{string(s.Phase)}
	for _, end := range []struct {
		name string
		End
	}{{s.To, s.Destination}, {s.From, s.Source}} {
		if !end.Up {
			why = append(why, fmt.Sprintf("%s is not connected%s", end.name, because(end.Error)))
		}
	}
	return strings.Join(why, ": ")
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// Status tells what every route is doing, in the order of the config file. It is safe for concurrent use, and cheap enough to be asked every second.
func (r *Router) Status() []Status {
	all := make([]Status, len(r.routes))
	for i, route := range r.routes {
		all[i] = route.status()
	}
	return all
}

func (r *route) status() Status {
	r.mu.Lock()
	phase, lanes := r.phase, r.lanes
	r.mu.Unlock()
	s := Status{
		Route: r.plan.Name,
		From:  r.plan.From.String(),
		To:    r.plan.To.String(),
		Phase: phase, Meter: r.meter,
		Source: endOf(r.sourceHealth, r.from), Destination: endOf(r.destinationHealth, r.to),
	}
	if r.poison != nil {
		s.Poison, s.PoisonQueue = endOf(r.poisonHealth, r.poison), r.plan.poison.String()
	}
	if lanes != nil {
		s.Lanes = lanes()
	}
	return s
}

// endOf is the route's own view of a broker; while the connection is not open, or nothing is known beyond it, that of the connection.
func endOf(own *handlers.Health, shared *site) End {
	h := shared.health
	if shared.isOpen() && own.Known() {
		h = own
	}
	up, since, err := h.State()
	at, no := h.Refusal()
	return End{Up: up, Since: since, Error: err, Refusal: no, RefusedAt: at}
}
