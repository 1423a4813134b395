package middleware

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// AckForward is the outermost link, and the only one that lets a message be acked at its source: when its ticket is settled, whatever
// else the chain says, and in no other case. A chain that returns nil although the ticket is not settled has swallowed the message:
// that becomes an error, and the message is emitted again. A message without a ticket, from a subscriber that knows no lanes, is acked when the chain returns nil.
func AckForward(s Settings) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			ticket := handlers.Ticket(msg)
			produced, err := next(msg)
			_, filtered := Dropped(err)
			if filtered && s.Meter != nil {
				s.Meter.Dropped.Add(1)
			}
			switch {
			case ticket == nil && filtered:
				return nil, nil
			case ticket == nil:
				return produced, err
			case ticket.Outcome() != lane.Unsettled:
				return nil, nil
			case filtered:
				ticket.Settle(lane.Dropped)
				return nil, nil
			case err == nil:
				err = handlers.Permanent(fmt.Errorf("route %q: message %s: the chain returned no error, but the message was neither "+
					"delivered nor dropped on purpose: a middleware must call the next handler, or return an error", s.Route, msg.UUID))
			}
			if handlers.ClassOf(err) != handlers.ClassCancelled {
				s.Health.Refused(err)
			}
			return nil, err
		}
	}
}
