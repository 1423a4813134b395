package router

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/middleware"
)

// chain is the only place where the order of a route's middleware is decided. Outermost first; the relay, which publishes, is innermost.
func chain(s middleware.Settings) []message.HandlerMiddleware {
	return []message.HandlerMiddleware{
		middleware.Stack,
		middleware.AckForward(s),
		middleware.Recoverer(s),
	}
}
