package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
	"weak"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	// pageBytes is how many bytes Next gives at most, unless a single message has more.
	pageBytes = 8 << 20
	// returnTime is how long RabbitMQ may take to put back what was looked at.
	returnTime = 10 * time.Second
)

var (
	_ handlers.Browser[DestinationConfig]     = (*Connection)(nil)
	_ handlers.PoisonQueue[DestinationConfig] = DestinationConfig{}
)

// errNotClassic is that looking at messages has a price.
var errNotClassic = errors.New("is a quorum queue: each look at a message counts as a delivery there, until the delivery limit takes it away; park in a classic queue")

// Browse looks through a queue: up to as many messages as wait in it now. AMQP has no way to look at a message without taking it, so each one is taken (basic.get, without a
// consumer) and not acked. When the look ends, whatever way, those that were not removed are in their places again, marked as redelivered. Meanwhile nobody else
// gets them: a second look, or a consumer, sees the rest. The other way round, what others hold is not seen here, and a warning says so as far as RabbitMQ tells.
//
// A look must end before RabbitMQ's consumer_timeout, 30 minutes by default: then it takes the messages back, and removals fail.
//
// A quorum queue is refused. It is known by its refusal of a limit for a whole channel (basic.qos global), before any of its messages is looked at. Where a RabbitMQ has no
// such limits for any queue, it cannot be known, and is not refused.
func (c *Connection) Browse(ctx context.Context, d handlers.Destination, o DestinationConfig) (handlers.Browsing, error) {
	if o.Exchange != "" {
		return nil, handlers.Unroutable(fmt.Errorf("exchange %q: an exchange keeps nothing that could be looked at; park in a queue", o.Exchange))
	}
	b := &browsing{dataCenter: c.settings.DataCenter, queue: d.Topic, logger: d.Logger, tags: map[weak.Pointer[record.Record]]uint64{}}
	var err error
	if b.conn, err = c.dial(ctx, "route "+d.Route+", look through "+d.Topic, func(n net.Conn) net.Conn {
		b.network = n
		return n
	}); err != nil {
		return nil, handlers.Unavailable(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = b.network.Close() })
	err = b.open()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// browsing is a look through a queue. All that it holds is its channel's.
type browsing struct {
	dataCenter, queue string
	logger            *slog.Logger
	network           net.Conn
	conn              *amqp.Connection
	channel           *amqp.Channel
	first             *amqp.Delivery // Taken and not given yet.
	left              int            // Messages that Next has still to give, with the first.
	// tags are those of all messages that were given: 0 when it was removed. They keep no message in memory.
	tags map[weak.Pointer[record.Record]]uint64
}

// open finds out what there is to look at.
func (b *browsing) open() error {
	var state amqp.Queue
	err := throwAway(b.conn, func(ch *amqp.Channel) (err error) {
		state, err = ch.QueueDeclarePassive(b.queue, true, false, false, false, nil)
		return err
	})
	switch {
	case isMissing(err):
		return nil
	case err != nil:
		return b.failed("look at", err)
	}
	if state.Consumers > 0 {
		b.logger.Warn("somebody consumes from the queue: what is on its way to a consumer is not seen", "queue", b.queue, "consumers", state.Consumers)
	}
	switch err := throwAway(b.conn, b.probe); {
	case hasCode(err, amqp.NotImplemented):
		return handlers.Unroutable(fmt.Errorf("queue %q %w", b.queue, errNotClassic))
	case isPrecondition(err):
		return handlers.Unroutable(fmt.Errorf("queue %q is a stream, which messages cannot be taken out of; park in a classic queue: %w", b.queue, err))
	case hasCode(err, amqp.AccessRefused):
		// An exclusive consumer has it, which quorum queues do not know; or there is no right to read, and the first message will tell.
	case err != nil:
		return b.failed("look at", err)
	}
	return b.begin()
}

// probe consumes as a quorum queue refuses to. Another gives one message at most, which is back when the channel is closed.
func (b *browsing) probe(ch *amqp.Channel) error { return b.consume(ch, true) }

// consume makes a consumer that is given one message at most.
func (b *browsing) consume(ch *amqp.Channel, global bool) error {
	if err := ch.Qos(1, 0, global); err != nil {
		return err
	}
	_, err := ch.Consume(b.queue, "", false, false, false, false, nil)
	return err
}

// begin takes the first message, and learns with it how many there are more. RabbitMQ's answer to a passive declaration does not tell that: it overtakes what was put back
// a moment ago.
func (b *browsing) begin() error {
	var err error
	if b.channel, err = b.conn.Channel(); err != nil {
		return b.failed("look at", err)
	}
	d, ok, err := b.channel.Get(b.queue, false)
	switch {
	case err != nil:
		return b.failed("look at", err)
	case ok:
		b.first, b.left = &d, int(d.MessageCount)+1
	}
	return nil
}

// Next gives up to n messages more. It looks at ctx between two messages; a RabbitMQ that does not answer is given up after its heartbeats are missed. After another error
// than that of ctx the look is over.
func (b *browsing) Next(ctx context.Context, n int) ([]*record.Record, error) {
	var page []*record.Record
	for bytes := 0; len(page) < n && bytes < pageBytes && b.left > 0; {
		if err := ctx.Err(); err != nil {
			return page, err
		}
		d, ok, err := b.get()
		switch {
		case err != nil:
			return page, b.failed("look through", err)
		case !ok:
			b.logger.Warn("the queue gives fewer messages than it had: others have taken them, or look at them", "queue", b.queue, "missing", b.left)
			b.left = 0
			return page, nil
		}
		b.left--
		r := fromDelivery(b.dataCenter, b.queue, &d)
		b.tags[weak.Make(r)] = d.DeliveryTag
		page = append(page, r)
		bytes += r.Size()
	}
	return page, nil
}

func (b *browsing) get() (d amqp.Delivery, ok bool, err error) {
	if b.first != nil {
		d, b.first = *b.first, nil
		return d, true, nil
	}
	return b.channel.Get(b.queue, false)
}

// Remove acks messages, and returns nil when RabbitMQ has the acks. It writes acks to its disk a moment later: after a crash some messages may be there
// again, but none is lost.
func (b *browsing) Remove(ctx context.Context, records []*record.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range records {
		if _, given := b.tags[weak.Make(r)]; !given {
			return fmt.Errorf("take a message out of queue %q: this look did not give it", b.queue)
		}
	}
	acked := 0
	for _, r := range records {
		tag := b.tags[weak.Make(r)]
		if tag == 0 {
			continue
		}
		// One by one: an ack of several takes with it all that were given before.
		if err := b.channel.Ack(tag, false); err != nil {
			return b.failed("take messages out of", err)
		}
		b.tags[weak.Make(r)] = 0
		acked++
	}
	if acked == 0 {
		return nil
	}
	// An ack has no answer; but what is asked next on the channel is answered after it.
	if _, err := b.channel.QueueDeclarePassive(b.queue, true, false, false, false, nil); err != nil {
		return b.failed("take messages out of", err)
	}
	return nil
}

// Close puts back what was not removed. It returns nil when the connection is broken, too: RabbitMQ does the same then.
func (b *browsing) Close() error {
	timer := time.AfterFunc(returnTime, func() { _ = b.network.Close() })
	defer timer.Stop()
	if b.channel != nil {
		// RabbitMQ answers the close of a channel that consumes when the queue has everything back, and otherwise before. (A nack of thousands takes seconds.)
		_ = b.consume(b.channel, false)
		_ = b.channel.Close()
	}
	_ = b.conn.Close()
	return nil
}

func (b *browsing) failed(doing string, err error) error {
	if hasCode(err, amqp.AccessRefused) {
		err = fmt.Errorf("the user may not do this; it needs the permission to read the queue: %w", err)
	}
	return handlers.Unavailable(fmt.Errorf("%s queue %s/%s: %w", doing, b.dataCenter, b.queue, err))
}
