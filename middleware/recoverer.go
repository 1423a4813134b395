package middleware

import (
	"fmt"
	"runtime/debug"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
)

// Recoverer makes a panic further in an error of class refused, with a short reason; the stack goes to the log. Watermill's own puts the
// stack into the error, and so into the header of whatever is parked.
func Recoverer(s Settings) message.HandlerMiddleware {
	s = s.complete()
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) (produced []*message.Message, err error) {
			defer func() {
				reason := recover()
				if reason == nil {
					return
				}
				s.Logger.Error("a middleware panicked", "message_uuid", msg.UUID, "panic", reason, "stack", string(debug.Stack()))
				produced, err = nil, handlers.Refused(fmt.Errorf("route %q: a middleware panicked: %v", s.Route, reason))
			}()
			return next(msg)
		}
	}
}
