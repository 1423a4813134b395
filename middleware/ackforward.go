package middleware

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// AckForward is the outermost link, and the only one that lets a message be acked at its source: when its ticket is settled, whatever
// else the chain says, and in no other case. It counts and times how messages end. A chain that returns nil although the ticket is not settled has swallowed the message:
// that becomes an error, and the message is emitted again. A message without a ticket, from a subscriber that knows no lanes, is acked when the chain returns nil.
func AckForward(s Settings) message.HandlerMiddleware {
	s = s.complete()
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			began := time.Now()
			_, err := next(msg)
			ending, err := s.ending(msg, err)
			if err == nil {
				s.Meter.End(ending, time.Since(began))
				return nil, nil
			}
			if handlers.ClassOf(err) != handlers.ClassCancelled {
				s.Health.Refused(err)
			}
			return nil, err
		}
	}
}

// ending settles what was dropped on purpose, and tells how the message ended; the error is not nil when it has not.
func (s Settings) ending(msg *message.Message, err error) (handlers.Ending, error) {
	var drop *dropped
	ticket := handlers.Ticket(msg)
	switch {
	case errors.As(err, &drop):
		if ticket != nil && !ticket.Settle(lane.Dropped) && ticket.Outcome() == lane.Unsettled {
			return 0, err // It is on its way already: a middleware dropped it too late.
		}
		s.Meter.Dropped.Add(1)
		return drop.as, nil
	case ticket == nil && errors.Is(err, errParked):
		return handlers.Parked, nil
	case ticket == nil:
		return handlers.Forwarded, err
	}
	switch ticket.Outcome() {
	case lane.Confirmed:
		return handlers.Forwarded, nil
	case lane.Parked:
		return handlers.Parked, nil
	case lane.Dropped:
		return handlers.Filtered, nil
	}
	if err == nil {
		err = handlers.Permanent(fmt.Errorf("route %q: message %s: the chain returned no error, but the message was neither "+
			"delivered nor dropped on purpose: a middleware must call the next handler, or return an error", s.Route, msg.UUID))
	}
	return 0, err
}
