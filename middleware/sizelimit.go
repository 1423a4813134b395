package middleware

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// SizeLimitConfig is the largest message that is carried: key, value and headers, in bytes, as middleware leaves it. 0, the default, means no limit.
type SizeLimitConfig config.Size

// UnmarshalText reads a size such as "1MiB".
func (c *SizeLimitConfig) UnmarshalText(text []byte) error {
	return (*config.Size)(c).UnmarshalText(text)
}

// String gives what UnmarshalText accepts.
func (c SizeLimitConfig) String() string { return config.Size(c).String() }

// DefaultSizeLimit is no limit.
func DefaultSizeLimit() SizeLimitConfig { return 0 }

// ErrTooLarge is wrapped by the error of a message over the limit.
var ErrTooLarge = errors.New("the message is too large")

// SizeLimit refuses a message over the limit for good, before it takes its turn.
func SizeLimit(c SizeLimitConfig, _ Settings) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if size := record.Outgoing(msg).Size(); int64(size) > int64(c) {
				return nil, handlers.Permanent(fmt.Errorf("%w: %d bytes, and max_message_bytes is %s", ErrTooLarge, size, c))
			}
			return next(msg)
		}
	}
}
