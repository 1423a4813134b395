package rabbitmq

import (
	"context"
	"fmt"
	"net"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
)

var (
	_ handlers.Inspector[SourceConfig, DestinationConfig] = (*Connection)(nil)
	_ handlers.DestinationChecker[DestinationConfig]      = Config{}
)

// InspectSource tells what the queue holds and how many consume from it. It is an error when there is nothing to read from.
func (c *Connection) InspectSource(ctx context.Context, s handlers.Source, o SourceConfig) (string, error) {
	conn, done, err := c.question(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	text, err := describeQueue(conn, s.Topic)
	switch {
	case isMissing(err) && o.Exchange != "":
		text = fmt.Sprintf("queue %q: would be created", s.Topic)
	case isMissing(err):
		return "", handlers.Unroutable(fmt.Errorf("queue %q does not exist; a queue that is read is never made: %w", s.Topic, err))
	case err != nil:
		return "", handlers.Unavailable(fmt.Errorf("look at queue %q: %w", s.Topic, err))
	}
	if o.Exchange == "" {
		return text, nil
	}
	err = throwAway(conn, func(ch *amqp.Channel) error { return lookForExchange(ch, o.Exchange) })
	switch {
	case isMissing(err):
		return "", handlers.Unroutable(fmt.Errorf("exchange %q does not exist; make it: %w", o.Exchange, err))
	case err != nil:
		return "", handlers.Unavailable(fmt.Errorf("look at exchange %q: %w", o.Exchange, err))
	}
	keys := "#"
	if len(o.RoutingKey) > 0 {
		keys = strings.Join(o.RoutingKey, ", ")
	}
	return fmt.Sprintf("%s, bound to exchange %q by %s", text, o.Exchange, keys), nil
}

// InspectDestination tells what the queue holds, that the exchange is there, or what would be made. It is an error when it is missing and is not to be made.
func (c *Connection) InspectDestination(ctx context.Context, d handlers.Destination, o DestinationConfig) (string, error) {
	if o.Exchange == "" && d.Template != nil {
		return fmt.Sprintf("queues named by %q: looked at when the first message comes", d.Topic), nil
	}
	conn, done, err := c.question(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	var text, made string
	if o.Exchange == "" {
		made = fmt.Sprintf("queue %q: would be created%s", d.Topic, madeAs(o))
		text, err = describeQueue(conn, d.Topic)
	} else {
		made = fmt.Sprintf("exchange %q: would be created, %s and without bindings", o.Exchange, o.ExchangeType)
		text = fmt.Sprintf("exchange %q", o.Exchange)
		err = throwAway(conn, func(ch *amqp.Channel) error { return lookForExchange(ch, o.Exchange) })
	}
	switch {
	case isMissing(err) && o.Create:
		return made, nil
	case isMissing(err):
		return "", handlers.Unroutable(fmt.Errorf("%w; make it, or set create: true", err))
	case err != nil:
		return "", handlers.Unavailable(fmt.Errorf("look at %s: %w", d.Topic, err))
	}
	return text, nil
}

// question gives a connection of its own, which ends with ctx or when done is called.
func (c *Connection) question(ctx context.Context) (conn *amqp.Connection, done func(), err error) {
	var network net.Conn
	conn, err = c.dial(ctx, "inspect", func(n net.Conn) net.Conn {
		network = n
		return n
	})
	if err != nil {
		return nil, nil, handlers.Unavailable(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = network.Close() })
	return conn, func() {
		_ = conn.Close()
		stop()
	}, nil
}

// describeQueue tells what is in a queue.
func describeQueue(conn *amqp.Connection, name string) (text string, err error) {
	err = throwAway(conn, func(ch *amqp.Channel) error {
		queue, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		text = fmt.Sprintf("queue %q: %d messages, %d consumers", name, queue.Messages, queue.Consumers)
		return err
	})
	if hasCode(err, amqp.AccessRefused) || hasCode(err, amqp.ResourceLocked) {
		return "", fmt.Errorf("this user may not look at it; grant it the right to configure, or to read, that name: %w", err)
	}
	return text, err
}

func madeAs(o DestinationConfig) string {
	if o.QueueType == "" {
		return ", durable"
	}
	return ", durable, " + string(o.QueueType)
}
