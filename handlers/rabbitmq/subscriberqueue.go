package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/config"
)

// maxTag is a consumer's tag in bytes; the protocol's limit is 255.
const maxTag = 200

// errStandby is that another consumer has the queue.
var errStandby = errors.New("another instance consumes, standing by")

// CheckSource reports what a route may say of a source, but not of a queue, and options that the stock client cannot honour.
func (c Config) CheckSource(s config.Source, o SourceConfig) error {
	if s.Start.Latest || !s.Start.Time.IsZero() {
		return config.Invalid("start", "a queue has no positions: it gives what is in it, the oldest first; leave start out, or write earliest")
	}
	return c.checkStockSource(o)
}

// consume finds the queue and begins to consume it, on a channel of its own.
func (r *reader) consume(ctx context.Context, l *line) (*session, error) {
	// The client's questions look at no context.
	stop := context.AfterFunc(ctx, func() { _ = l.gate.Close() })
	s, err := r.attach(l)
	if !stop() {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, r.explain(err)
	}
	return s, nil
}

// attach consumes exclusively where that is asked for. A queue with a single active consumer refuses that, and needs it no more than
// one that does not know exclusive consumers, as quorum queues do not: there it is enough to be the only one.
func (r *reader) attach(l *line) (*session, error) {
	if err := r.prepare(l); err != nil {
		return nil, err
	}
	s, err := r.begin(l, r.options.Exclusive)
	var atConsume *consumeError
	if r.options.Exclusive && errors.As(err, &atConsume) && hasCode(err, amqp.AccessRefused) {
		s, err = r.begin(l, false)
	}
	return s, err
}

func (r *reader) begin(l *line, exclusive bool) (*session, error) {
	ch, err := l.Channel()
	if err != nil {
		return nil, err
	}
	tag := "mqferry " + r.connection.settings.Instance
	s := &session{
		line: l, source: r.source, channel: ch, tag: tag[:min(len(tag), maxTag)], prefetch: prefetch(r.source.Window),
		closes: ch.NotifyClose(make(chan *amqp.Error, 1)), cancels: ch.NotifyCancel(make(chan string, 1)),
	}
	if s.deliveries, err = r.start(s, exclusive); err != nil {
		_ = ch.Close()
		return nil, err
	}
	return s, nil
}

// start counts the consumers before and after: of two that begin at the same time, both step back.
func (r *reader) start(s *session, exclusive bool) (<-chan amqp.Delivery, error) {
	if err := r.free(s.channel, 0); err != nil {
		return nil, err
	}
	if err := s.channel.Qos(s.prefetch, 0, false); err != nil {
		return nil, err
	}
	// No other priority than that of all; but a stream refuses to be asked, and is known by that.
	deliveries, err := s.channel.Consume(r.source.Topic, s.tag, false, exclusive, false, false, amqp.Table{"x-priority": int32(0)})
	if err != nil {
		return nil, &consumeError{err}
	}
	return deliveries, r.free(s.channel, 1)
}

// free reports that the queue has more consumers than it may have.
func (r *reader) free(ch *amqp.Channel, most int) error {
	q, err := ch.QueueDeclarePassive(r.source.Topic, true, false, false, false, nil)
	if err == nil && r.options.Exclusive && q.Consumers > most {
		return errStandby
	}
	return err
}

// prefetch is the window and no more: an ack has no answer in AMQP, so when a connection dies all that was prefetched may come again.
func prefetch(window int) int { return min(window, maxPrefetch) }

// prepare makes and binds the queue of a route that reads an exchange. A queue that is read by its name is never made.
func (r *reader) prepare(l *line) error {
	if r.options.Exchange == "" {
		return nil
	}
	err := throwAway(l.Connection, func(ch *amqp.Channel) error { return lookForExchange(ch, r.options.Exchange) })
	if err != nil {
		return &exchangeError{err}
	}
	err = throwAway(l.Connection, func(ch *amqp.Channel) error { return lookForQueue(ch, r.source.Topic) })
	if isMissing(err) {
		err = r.create(l)
	}
	if err != nil {
		return err
	}
	return throwAway(l.Connection, r.bind)
}

func (r *reader) create(l *line) error {
	err := throwAway(l.Connection, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(r.source.Topic, true, false, false, false, queueArguments(r.options.QueueType, r.options.QueueArguments))
		return err
	})
	if err == nil && r.session() != nil {
		r.source.Meter.Recreated.Add(1)
	}
	if err == nil {
		r.source.Logger.Info("made the route's own queue: it gets what is published from now on",
			"queue", r.source.Topic, "exchange", r.options.Exchange)
	}
	return err
}

// bind repeats what is there already: a process that was killed may have made the queue and not bound it.
func (r *reader) bind(ch *amqp.Channel) error {
	keys := r.options.RoutingKey
	if len(keys) == 0 {
		keys = []string{"#"}
	}
	for _, key := range keys {
		if err := ch.QueueBind(r.source.Topic, key, r.options.Exchange, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// consumeError is a no to the consumer itself, exchangeError one to the look at the exchange.
type (
	consumeError  struct{ error }
	exchangeError struct{ error }
)

func (e *consumeError) Unwrap() error  { return e.error }
func (e *exchangeError) Unwrap() error { return e.error }

// explain says what to do about a no.
func (r *reader) explain(err error) error {
	var atConsume *consumeError
	var atExchange *exchangeError
	queue := r.source.DataCenter + "/" + r.source.Topic
	switch {
	case errors.Is(err, errStandby):
		return fmt.Errorf("queue %s: %w", queue, err)
	case errors.As(err, &atExchange) && isMissing(err):
		return fmt.Errorf("exchange %q of %s does not exist: declare it, and the route goes on: %w", r.options.Exchange, r.source.DataCenter, err)
	case isMissing(err):
		return fmt.Errorf("queue %s does not exist: declare it, and the route goes on: %w", queue, err)
	case errors.As(err, &atConsume) && isPrecondition(err):
		return fmt.Errorf("queue %s is a stream, which cannot be a source: a stream is not acked message by message; read a classic or quorum queue: %w", queue, err)
	case hasCode(err, amqp.AccessRefused):
		return fmt.Errorf("queue %s: the user may not do this; it needs the permission to read the queue: %w", queue, err)
	}
	return fmt.Errorf("consume queue %s: %w", queue, err)
}
