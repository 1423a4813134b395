package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	stock "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// stockPublisher is the publisher of watermill-amqp, to queues that are looked for and made as for our own. There is a new one for each connection: the stock
// one keeps channels of a connection that is lost.
type stockPublisher struct {
	*publisher // Without channels: it keeps the connection and knows the queues.

	slots   chan struct{} // One for each channel of the stock publisher, in which nobody may have to wait for one: it forgets those that fail.
	inside  sync.RWMutex  // Held by whoever uses the stock publisher; it must not be closed meanwhile.
	life    atomic.Pointer[stockLife]
	closing chan struct{}
	once    sync.Once
}

// stockLife is the publisher on one connection.
type stockLife struct {
	*stockLine
	inner   *stock.Publisher
	returns *returns
}

// stockFlight is a message on its way through the stock publisher.
type stockFlight struct {
	publishing amqp.Publishing
	life       *stockLife
	began      int // What returns said when it had a channel.
	marshalled bool
}

type stockFlightKey struct{}

func newStockPublisher(c *Connection, d handlers.Destination, o DestinationConfig) *stockPublisher {
	p := &stockPublisher{
		publisher: preparePublisher(c, d, o),
		slots:     make(chan struct{}, o.Channels), closing: make(chan struct{}),
	}
	p.ends.Go(func() { p.run(p.open) })
	return p
}

// open connects, and makes a stock publisher.
func (p *stockPublisher) open() (*link, error) {
	p.retire()
	log := newStockLogger(p.destination.Logger, nil)
	l := &stockLife{}
	var err error
	l.stockLine, err = p.connection.stockLine(p.ctx, "route "+p.destination.Route+", publisher", log, func(conn net.Conn) net.Conn {
		l.returns = newReturns(conn)
		return l.returns
	})
	if err != nil {
		return nil, err
	}
	l.conn.NotifyBlocked(l.blocks)
	stop := context.AfterFunc(p.ctx, func() { l.end(errClosed) })
	l.inner, err = stock.NewPublisherWithConnection(p.settings(), log, l.wrapper)
	if !stop() {
		err = errors.Join(err, errClosed)
	}
	if err != nil {
		l.close(partingTime)
		return nil, err
	}
	p.life.Store(l)
	return l.link, nil
}

// settings are the safe ones.
func (p *stockPublisher) settings() stock.Config {
	c := stock.NewDurableQueueConfig(stockURI)
	c.Marshaler = stockMarshaler{}
	c.Publish.ConfirmDelivery, c.Publish.Mandatory, c.Publish.ChannelPoolSize = true, true, p.options.Channels
	return c
}

// retire closes the stock publisher of a connection that is gone.
func (p *stockPublisher) retire() {
	p.inside.Lock()
	defer p.inside.Unlock()
	if l := p.life.Swap(nil); l != nil {
		l.close(partingTime)
		_ = l.inner.Close()
	}
}

// Publish sends the messages to the queue called topic, one after the other, each when RabbitMQ has confirmed the one before and has not returned it.
func (p *stockPublisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := p.publish(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

func (p *stockPublisher) publish(topic string, msg *message.Message) error {
	s, err := p.shipment(topic, record.Outgoing(msg), nil)
	if err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-p.closing:
		return handlers.Unavailable(errClosed)
	}
	p.inside.RLock()
	defer p.inside.RUnlock()
	select {
	case <-p.closing:
		return handlers.Unavailable(errClosed)
	default:
	}
	l := p.life.Load()
	if l == nil || l.conn.IsClosed() {
		return handlers.Unavailable(errNoConnection)
	}
	return p.ship(l, s, msg.UUID)
}

// ship lets the stock publisher send a message, and makes up for what it does not look at.
func (p *stockPublisher) ship(l *stockLife, s *shipment, id string) error {
	flight := &stockFlight{publishing: s.publishing, life: l}
	msg := message.NewMessage(id, nil)
	msg.SetContext(context.WithValue(context.Background(), stockFlightKey{}, flight))
	err := l.inner.Publish(s.key, msg)
	switch {
	case err != nil && !flight.marshalled:
		l.end(err) // The stock publisher is one channel short from now on.
		return handlers.Unavailable(err)
	case err != nil && l.conn.IsClosed():
		return handlers.Unavailable(fmt.Errorf("connection to rabbitmq: %w", l.why(nil)))
	case err != nil:
		return handlers.Unavailable(fmt.Errorf("rabbitmq refused the message, or closed the channel: is the queue full, or the message too large? %w", err))
	case l.returns.since(flight.began, s.key):
		p.places.forget(s.key)
		return handlers.Unroutable(fmt.Errorf("%s: rabbitmq returned the message, there is no such queue", s.at()))
	}
	return nil
}

// Close ends what is not confirmed within a moment, and the connection. Closing twice does nothing.
func (p *stockPublisher) Close() error {
	p.once.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		close(p.closing)
		late := time.AfterFunc(partingTime, func() {
			if l := p.life.Load(); l != nil {
				l.end(errClosed)
			}
		})
		p.inside.Lock() // The stock publisher panics when its connection is closed as it should be under a message.
		late.Stop()
		p.inside.Unlock()
		p.cancel()
		p.ends.Wait()
		p.retire()
	})
	return nil
}

// stockMarshaler gives the stock package what was made before.
type stockMarshaler struct{}

// Marshal is called when the message has a channel.
func (stockMarshaler) Marshal(msg *message.Message) (amqp.Publishing, error) {
	flight := msg.Context().Value(stockFlightKey{}).(*stockFlight)
	flight.marshalled = true
	flight.began = flight.life.returns.now()
	return flight.publishing, nil
}

// Unmarshal is never called.
func (stockMarshaler) Unmarshal(amqp.Delivery) (*message.Message, error) {
	return nil, errors.ErrUnsupported
}
