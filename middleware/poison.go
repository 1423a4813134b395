package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// PoisonQueue is where messages are parked.
type PoisonQueue struct {
	// Park puts a message into the queue, and returns nil when its broker has confirmed it. While that is unavailable it waits, as long as the
	// message's context lives.
	Park func(*message.Message) error
	// Place names the queue: datacenter/topic.
	Place string
	// Holds lists the classes of error for which a message is not parked: its lane waits.
	Holds []handlers.Class
}

// errParked ends the chain of a parked message that has no ticket.
var errParked = errors.New("parked")

// Poison parks a message that was given up: the original record, whole, with headers that say why, goes into the poison queue, and once that is confirmed the
// message counts as settled. While the poison queue's broker is unavailable, or says no, the message is held. Watermill's own is not used: it also parks what a shutdown
// cancelled, parks what middleware made of the message, and puts whole stack traces into headers.
func Poison(q PoisonQueue, s Settings) message.HandlerMiddleware {
	s = s.complete()
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			original := snapshotOf(msg)
			produced, err := next(msg)
			if err == nil || isOver(msg, err) || slices.Contains(q.Holds, handlers.ClassOf(err)) {
				return produced, err
			}
			original.restore(msg)
			ticket := handlers.Ticket(msg)
			if ticket != nil && !ticket.Parking() {
				return nil, handlers.Cancelled(err)
			}
			if stopped := q.park(msg, err, s); stopped != nil {
				return nil, stopped
			}
			if ticket == nil {
				return nil, errParked
			}
			ticket.Settle(lane.Parked)
			return nil, nil
		}
	}
}

// park publishes the copy of msg, again and again until it is confirmed. It gives up when the message is of no use any more.
func (q PoisonQueue) park(msg *message.Message, why error, s Settings) error {
	parked := Parked(record.Outgoing(msg), s.Route, why)
	pauses := DefaultRetry()
	for n := 1; ; n++ {
		out := message.NewMessage(parked.ID, parked.Value)
		out.Metadata = record.Metadata(parked)
		out.SetContext(record.With(apart{msg.Context()}, parked))
		err := q.Park(out)
		switch {
		case err == nil:
			return nil
		case handlers.ClassOf(err) == handlers.ClassCancelled:
			return err
		}
		s.Health.Refused(fmt.Errorf("%w; and it cannot be parked in %s: %w", why, q.Place, err))
		if !wait(msg, pauses.after(n)) {
			return handlers.Cancelled(err)
		}
	}
}

// apart is the context of a parked copy: it ends with that of the message, and has nothing else of it, so that the copy takes no turn.
type apart struct{ context.Context }

func (apart) Value(any) any { return nil }
