package middleware

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
)

// Slots returns the two links around a route's own middleware that let in as many messages of a lane at once as the lane has slots, in the order of the lane. A slot is
// free again before the message waits for its turn: what waits there needs none. Messages without a ticket pass.
func Slots() (begin, end message.HandlerMiddleware) { return takeSlot, freeSlot }

func takeSlot(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ticket := handlers.Ticket(msg)
		if ticket == nil {
			return next(msg)
		}
		if err := ticket.TakeSlot(); err != nil {
			return nil, handlers.Cancelled(err)
		}
		defer ticket.FreeSlot()
		return next(msg)
	}
}

func freeSlot(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if ticket := handlers.Ticket(msg); ticket != nil {
			ticket.FreeSlot()
		}
		return next(msg)
	}
}
