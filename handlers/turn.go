package handlers

import (
	"context"
	"errors"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers/lane"
)

// ErrTurnLost is returned by Turn.Send when a message lost its turn before it was handed over, and given to Turn.Done when it was taken back before it was
// sent: the relay lets it wait for its next turn.
var ErrTurnLost = errors.New("the message lost its turn: a failure or a refusal came before it")

// Turn is a message's place in its lane, as a pipelined publisher sees it. For each message the publisher calls Send to put
// it into its ordered send buffer, which lets the next message of the lane come; Done, from any goroutine, when the outcome is
// known; and Wait, which returns that outcome. A message that does not come from a relay has a turn of its own that is always free.
type Turn struct {
	ticket *lane.Ticket
	giveUp []Class // See Destination.
	err    error
	done   chan struct{} // Only without a ticket.
}

// turnKey is where a relay keeps the turn of the message that it publishes.
type turnKey struct{}

// TurnOf gives the turn of msg. It is never nil.
func TurnOf(msg *message.Message) *Turn {
	if t, ok := msg.Context().Value(turnKey{}).(*Turn); ok {
		return t
	}
	return &Turn{done: make(chan struct{})}
}

// Send calls put, which appends the message to the send buffer, unless the turn was lost meanwhile: then it returns ErrTurnLost,
// to be returned as it is. Put must not block, and must not call Done itself.
func (t *Turn) Send(put func()) error {
	if t.ticket == nil {
		put()
		return nil
	}
	if !t.ticket.Enqueue(put) {
		return ErrTurnLost
	}
	return nil
}

// Done tells the outcome of a message that was sent: nil when the broker has confirmed it, otherwise an error with its class. It closes
// the lane's fence at once, before anything else can be sent. Call it once for each Send that returned nil.
func (t *Turn) Done(err error) {
	t.err = err
	if t.ticket == nil {
		close(t.done)
		return
	}
	t.ticket.Resolve(outcomeOf(err, t.giveUp))
}

// Suspend keeps the lane from sending anything above this message until it is settled. It stays sent: the publisher
// sends it again by itself, while it looks for the one message at fault among several that failed together.
func (t *Turn) Suspend() {
	if t.ticket != nil {
		t.ticket.Suspend()
	}
}

// SharesLane reports whether both messages are of one lane, so that their order counts.
func (t *Turn) SharesLane(other *Turn) bool {
	return t.ticket != nil && other.ticket != nil && t.ticket.Lane() == other.ticket.Lane()
}

// Wait blocks until Done was called, and returns its error.
func (t *Turn) Wait() error {
	if t.ticket == nil {
		<-t.done
	} else {
		t.ticket.Await()
	}
	return t.err
}

// Ticket gives the ticket of msg in its lane, or nil when its subscriber does not know lanes.
func Ticket(msg *message.Message) *lane.Ticket {
	if it := itemOf(msg.Context()); it != nil {
		return &it.ticket
	}
	return nil
}

func itemOf(ctx context.Context) *item {
	it, _ := ctx.Value(itemKey{}).(*item)
	return it
}

// outcomeOf is where errors become outcomes. An error without a class came from a broker, so it is a failure on the way. So is a want of room or of
// a place, unless such messages are to be given up: it meets every message alike, and the first one that passes opens the way for all.
func outcomeOf(err error, giveUp []Class) lane.Outcome {
	if err == nil {
		return lane.Confirmed
	}
	switch c := ClassOf(err); {
	case c == ClassRefused, c == ClassPermanent, slices.Contains(giveUp, c):
		return lane.Refused
	default:
		return lane.Failed
	}
}
