package middleware

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// TimeoutConfig is how long the route's own middleware may take for a message in one attempt. 0, the default, means no limit.
type TimeoutConfig config.Duration

// UnmarshalText reads a duration such as "5s".
func (c *TimeoutConfig) UnmarshalText(text []byte) error {
	return (*config.Duration)(c).UnmarshalText(text)
}

// String gives what UnmarshalText accepts.
func (c TimeoutConfig) String() string { return config.Duration(c).String() }

// DefaultTimeout is no limit.
func DefaultTimeout() TimeoutConfig { return 0 }

type timeoutKey struct{}

// Timeout returns the two links around a route's own middleware: the context that they see ends after c, and what is further in, the publish above all, has
// the context that was there before, with whatever values the middleware has put into it. A middleware that goes on after its time is up publishes nothing: the attempt counts as refused.
// Watermill's own never gives the context back, and so ends publishes.
func Timeout(c TimeoutConfig) (begin, end message.HandlerMiddleware) {
	begin = func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			outer := msg.Context()
			defer msg.SetContext(outer)
			ctx, cancel := context.WithTimeout(outer, time.Duration(c))
			defer cancel()
			inTime := &limited{outer: outer, stop: cancel}
			msg.SetContext(context.WithValue(ctx, timeoutKey{}, inTime))
			produced, err := next(msg)
			if err != nil && !inTime.passed && ctx.Err() != nil && outer.Err() == nil {
				err = handlers.Refused(fmt.Errorf("the route's middleware took longer than its timeout of %s: %w", c, err))
			}
			return produced, err
		}
	}
	return begin, endTimeout
}

// limited is one attempt under a timeout.
type limited struct {
	outer  context.Context
	stop   context.CancelFunc
	passed bool // The middleware is through.
}

func endTimeout(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		inTime, ok := ctx.Value(timeoutKey{}).(*limited)
		if !ok {
			return next(msg) // The middleware has changed the context for another one: the relay will say so.
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		inTime.passed = true
		inTime.stop()
		msg.SetContext(unlimited{outer: inTime.outer, Context: ctx})
		defer msg.SetContext(ctx)
		return next(msg)
	}
}

// unlimited has the values of one context, and the end of another.
type unlimited struct {
	context.Context
	outer context.Context
}

func (u unlimited) Deadline() (time.Time, bool) { return u.outer.Deadline() }
func (u unlimited) Done() <-chan struct{}       { return u.outer.Done() }
func (u unlimited) Err() error                  { return u.outer.Err() }
