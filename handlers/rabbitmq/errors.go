package rabbitmq

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
)

// unavailable says what ended a channel or a connection. That is the whole channel's, never one message's, and what was stored is not known.
func unavailable(cause error) error {
	if hasCode(cause, amqp.AccessRefused) {
		cause = fmt.Errorf("the user may not publish there, give it the right to write: %w", cause)
	}
	return handlers.Unavailable(cause)
}

// isMissing reports whether RabbitMQ said that there is no such exchange or queue.
func isMissing(err error) bool { return hasCode(err, amqp.NotFound) }

// isPrecondition reports whether RabbitMQ closed a channel over something in a message.
func isPrecondition(err error) bool { return hasCode(err, amqp.PreconditionFailed) }

func hasCode(err error, code int) bool {
	var said *amqp.Error
	return errors.As(err, &said) && said.Server && said.Code == code
}

// fits reports what the client cannot write, and headers over the size of a frame, both of which would cost the connection with everything on it. Frame is the size
// of the server's frames; 0 means any.
func fits(p *amqp.Publishing, frame int64) error {
	size, err := headerSize(p)
	if err == nil && frame > 0 && size > frame {
		return fmt.Errorf("its properties and headers take %d bytes, the server's frame_max is %d", size, frame)
	}
	return err
}
