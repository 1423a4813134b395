package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	stock "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// stockSubscriber is the subscriber of watermill-amqp, made again, after a pause, whenever it fails. It emits one message after the other, with its
// record, and without a ticket.
type stockSubscriber struct {
	connection *stockConnection
	source     handlers.Source
	reader     *reader // It knows what to do about a no.
	exclusive  bool    // Whether to ask RabbitMQ for that; the queue may not know it.
	ended      chan struct{}

	mu         sync.Mutex
	subscribed bool
	stop       context.CancelFunc
}

var (
	errStockEnded = errors.New("the stock subscriber ended by itself")
	errCancelled  = errors.New("RabbitMQ cancelled the consumer, as it does when the queue is deleted or moved")
)

func newStockSubscriber(c *stockConnection, s handlers.Source, o SourceConfig) *stockSubscriber {
	return &stockSubscriber{
		connection: c, source: s, reader: newReader(c.Connection, s, o), exclusive: o.Exclusive, ended: make(chan struct{}), stop: func() {},
	}
}

// Subscribe returns the channel of messages at once, and connects for as long as it takes. The end of ctx stops the intake as Close does.
func (s *stockSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		return nil, handlers.ErrSubscribed
	}
	s.subscribed = true
	ctx, s.stop = context.WithCancel(ctx)
	out := make(chan *message.Message)
	go s.run(ctx, out)
	return out, nil
}

func (s *stockSubscriber) run(intake context.Context, out chan<- *message.Message) {
	defer close(s.ended)
	defer close(out)
	s.reader.attempts(intake, func() (again bool, err error) {
		err = s.once(intake, out)
		if intake.Err() == nil {
			s.source.Health.Down(err)
		}
		return true, err
	})
}

// Close stops the intake and waits for the message in flight, up to 5 s: what is not acked by then comes again.
func (s *stockSubscriber) Close() error {
	s.mu.Lock()
	if !s.subscribed {
		s.subscribed = true
		close(s.ended)
	}
	s.mu.Unlock()
	s.stop()
	<-s.ended
	return nil
}

// stockIntake is the stock subscriber on one connection.
type stockIntake struct {
	*stockSubscriber
	*stockLine
	life     context.Context // It ends, with the cause, when the stock subscriber fails.
	fail     context.CancelCauseFunc
	inner    *stock.Subscriber
	messages <-chan *message.Message
	last     *record.Record // Of the message that is being emitted: there is one at a time.
}

// once runs the stock subscriber until it fails, or the intake ends and the message in flight is acked.
func (s *stockSubscriber) once(intake context.Context, out chan<- *message.Message) error {
	i := &stockIntake{stockSubscriber: s}
	i.life, i.fail = context.WithCancelCause(context.WithoutCancel(intake))
	defer i.fail(nil)
	log := newStockLogger(s.source.Logger, i.failed)
	var err error
	if i.stockLine, err = s.connection.stockLine(intake, "source of "+s.source.Route, log, nil); err != nil {
		return err
	}
	answered := false
	defer func() { i.finish(answered) }()
	if i.inner, err = stock.NewSubscriberWithConnection(i.settings(), log, i.wrapper); err != nil {
		return err
	}
	stop := context.AfterFunc(intake, func() { i.end(errClosed) }) // The client's questions look at no context.
	err = i.begin(intake)
	if !stop() {
		return intake.Err()
	}
	answered = true
	if err != nil {
		return s.explain(err, i)
	}
	s.source.Health.Up()
	for {
		select {
		case <-intake.Done():
			return nil
		case <-i.life.Done():
			return s.explain(context.Cause(i.life), i)
		case msg, ok := <-i.messages:
			if !ok {
				i.fail(errStockEnded)
				continue
			}
			if answered = i.hand(intake, out, msg); !answered {
				return nil
			}
		}
	}
}

// failed takes what the stock package calls an error: its consumer is lost after each one.
func (i *stockIntake) failed(err error) {
	if err == nil {
		err = errLost
	}
	i.fail(err)
}

// settings are the safe ones.
func (i *stockIntake) settings() stock.Config {
	c := stock.NewDurableQueueConfig(stockURI)
	c.Marshaler, c.TopologyBuilder = i, i
	c.Consume.Exclusive = i.exclusive
	// No other priority than that of all; but a stream refuses to be asked, and is known by that.
	c.Consume.Arguments = amqp.Table{"x-priority": int32(0)}
	return c
}

// begin consumes, and waits until RabbitMQ has not said no for a while.
func (i *stockIntake) begin(intake context.Context) error {
	var err error
	if i.messages, err = i.inner.Subscribe(i.life, i.source.Topic); err != nil {
		return err
	}
	timer := time.NewTimer(stockSettle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-intake.Done():
		return intake.Err()
	case <-i.life.Done():
		return &consumeError{context.Cause(i.life)}
	}
	// Of two that begin at the same time, both step back.
	return throwAway(i.conn, func(ch *amqp.Channel) error { return i.reader.free(ch, 1) })
}

// explain says what failed, and what to do about it.
func (s *stockSubscriber) explain(err error, i *stockIntake) error {
	if lost := i.lost(); lost != nil {
		s.source.Meter.Reconnects.Add(1)
		return fmt.Errorf("consume queue %s/%s: %w", s.source.DataCenter, s.source.Topic, lost)
	}
	var atConsume *consumeError
	if s.exclusive && errors.As(err, &atConsume) && hasCode(err, amqp.AccessRefused) {
		s.exclusive = false // A queue with a single active consumer refuses that; it is enough to be the only one.
	}
	return s.reader.explain(err)
}

// BuildTopology only looks: a queue that is read is never made. It is called before each consumer begins; there is one to a connection.
func (i *stockIntake) BuildTopology(ch *amqp.Channel, _ stock.BuildTopologyParams, _ stock.Config, _ watermill.LoggerAdapter) error {
	if i.life.Err() != nil {
		_ = i.conn.Close() // RabbitMQ has all acks by now. Otherwise the stock subscriber may fetch some more before it ends.
		<-i.abandoned
		return errClosed
	}
	return i.reader.free(ch, 0)
}

// ExchangeDeclare is never called.
func (*stockIntake) ExchangeDeclare(*amqp.Channel, string, stock.Config) error {
	return errors.ErrUnsupported
}

// Unmarshal keeps the record for hand, and gives the stock subscriber something to carry around. It is called without a delivery when there are no more.
func (i *stockIntake) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	if d.Acknowledger == nil {
		return nil, errCancelled
	}
	i.last = fromDelivery(i.source.DataCenter, i.source.Topic, &d)
	return message.NewMessage(i.last.ID, nil), nil
}

// Marshal is never called.
func (*stockIntake) Marshal(*message.Message) (amqp.Publishing, error) {
	return amqp.Publishing{}, errors.ErrUnsupported
}

// hand gives out a message, and the answer to it back to the stock one. It returns false when the intake has stopped and there is no answer.
func (i *stockIntake) hand(intake context.Context, out chan<- *message.Message, msg *message.Message) (answered bool) {
	ctx, cancel := context.WithCancel(i.life)
	defer cancel()
	given := i.last.Message(ctx)
	select {
	case out <- given:
		i.source.Meter.Fetched.Add(1)
	case <-intake.Done():
		return false
	case <-i.life.Done():
		msg.Nack()
		return true
	}
	stopping, failing := intake.Done(), i.life.Done()
	var late <-chan time.Time
	for {
		select {
		case <-given.Acked():
			i.ack(msg)
			return true
		case <-given.Nacked():
			i.source.Meter.Nacked.Add(1)
			i.pause(intake)
			msg.Nack()
			return true
		case <-failing:
			failing = nil
			i.source.Health.Down(context.Cause(i.life)) // It comes again when this one is answered, not before.
		case <-stopping:
			stopping = nil
			timer := time.NewTimer(stockDrain)
			defer timer.Stop()
			late = timer.C
		case <-late:
			return false
		}
	}
}

func (i *stockIntake) ack(msg *message.Message) {
	msg.Ack()
	if i.life.Err() == nil {
		i.source.Meter.Committed.Add(1)
	}
}

// pause is the one before a nack.
func (i *stockIntake) pause(intake context.Context) {
	timer := time.NewTimer(i.connection.resend)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-intake.Done():
	case <-i.life.Done():
	}
}

// finish ends the connection. Answered says that no message is out: then what was acked last is seen to arrive.
func (i *stockIntake) finish(answered bool) {
	late := time.AfterFunc(closeTimeout, func() { i.end(errClosed) })
	defer late.Stop()
	i.fail(nil)
	if answered && i.messages != nil {
		for msg := range i.messages {
			msg.Nack()
		}
	}
	if i.inner != nil {
		_ = i.inner.Close()
	}
	i.close(closeTimeout)
}
