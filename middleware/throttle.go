package middleware

import (
	"context"
	"errors"
	"math"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/time/rate"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// ThrottleConfig bounds the rate of a route, over all its lanes.
type ThrottleConfig struct {
	// MessagesPerSecond is how many messages may be delivered in a second on average; 0, the default, means no limit.
	MessagesPerSecond float64 `yaml:"messages_per_second"`
	// BytesPerSecond is the same in bytes of keys, values and headers, such as 10MiB.
	BytesPerSecond config.Size `yaml:"bytes_per_second"`
	// Burst is how many seconds' worth of what was not used is saved up; 1 by default.
	Burst float64 `yaml:"burst"`
}

// DefaultThrottle limits nothing.
func DefaultThrottle() ThrottleConfig { return ThrottleConfig{Burst: 1} }

// Validate reports rates that nothing could pass.
func (c ThrottleConfig) Validate() error {
	var errs []error
	if !(c.MessagesPerSecond >= 0) || math.IsInf(c.MessagesPerSecond, 0) {
		errs = append(errs, config.Invalid("messages_per_second", "%v is not a rate; 0 means no limit", c.MessagesPerSecond))
	}
	if c.MessagesPerSecond == 0 && c.BytesPerSecond == 0 {
		errs = append(errs, errors.New("limits nothing; give messages_per_second or bytes_per_second"))
	}
	if !(c.Burst > 0) || math.IsInf(c.Burst, 0) {
		errs = append(errs, config.Invalid("burst", "%v is not more than 0 seconds", c.Burst))
	}
	return errors.Join(errs...)
}

// Throttle lets messages pass at a bounded rate. Each is held back at its turn, just before it is published: so lanes keep their order, and the rate is that
// at which messages leave. Watermill's own holds them back before their turn, in any order, and does not know bytes.
func Throttle(c ThrottleConfig, s Settings) {
	messages := limiter(c.MessagesPerSecond, c.Burst)
	bytes := limiter(float64(c.BytesPerSecond), c.Burst)
	s.complete().AtTurn(func(msg *message.Message) error {
		err := spend(msg.Context(), messages, 1)
		if err == nil && bytes != nil {
			err = spend(msg.Context(), bytes, record.Outgoing(msg).Size())
		}
		if err != nil {
			return handlers.Cancelled(err)
		}
		return nil
	})
}

func limiter(perSecond, burst float64) *rate.Limiter {
	if perSecond == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond*burst)))
}

// spend waits until n may pass. What is more than a whole burst passes in parts.
func spend(ctx context.Context, l *rate.Limiter, n int) error {
	if l == nil {
		return nil
	}
	for n > 0 {
		part := min(n, l.Burst())
		if err := l.WaitN(ctx, part); err != nil {
			return err
		}
		n -= part
	}
	return nil
}
