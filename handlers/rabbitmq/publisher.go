package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// answerTimeout is how long RabbitMQ may take for anything but a confirm.
const answerTimeout = 10 * time.Second

// publisher publishes over one AMQP connection at a time, which is made at once and made again whenever it is gone, so that a destination is known to be
// down before there is anything to send. A lane always goes over the same one of its channels, so order is RabbitMQ's own.
type publisher struct {
	connection  *Connection
	destination handlers.Destination
	options     DestinationConfig
	key         *record.Template // Of the routing key, where there is an exchange.
	arguments   amqp.Table       // For the creation of a queue.
	channels    []*channel
	seed        maphash.Seed
	places      places
	sizes       sizes
	frame       atomic.Int64 // Bytes of a frame on the current connection; 0 when there is no limit.

	ctx    context.Context
	cancel context.CancelFunc
	ends   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	link   *link         // Nil while there is none.
	linked chan struct{} // Closed when there is one.
}

// laneKey tells the lanes of the sources apart. Messages without a source share one.
type laneKey struct{ dataCenter, topic, lane string }

func newPublisher(c *Connection, d handlers.Destination, o DestinationConfig) *publisher {
	p := preparePublisher(c, d, o)
	for range max(o.Channels, 1) {
		p.channels = append(p.channels, newChannel(p))
	}
	p.ends.Go(func() { p.run(p.open) })
	return p
}

// preparePublisher makes a publisher without channels, which does not connect yet.
func preparePublisher(c *Connection, d handlers.Destination, o DestinationConfig) *publisher {
	p := &publisher{connection: c, destination: d, options: o, seed: maphash.MakeSeed(), linked: make(chan struct{})}
	if p.key = o.RoutingKey; p.key == nil {
		same, _ := record.ParseTemplate("{routing_key}")
		p.key = &same
	}
	p.arguments = queueArguments(o.QueueType, o.QueueArguments)
	p.places = places{known: map[string]bool{}, asking: map[string]*question{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Publish sends the messages, to the queue called topic if there is no exchange, and waits until RabbitMQ has confirmed them and has not returned them.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	return handlers.PublishAll(messages, func(msg *message.Message, turn *handlers.Turn) error {
		return p.send(topic, msg, turn)
	})
}

// send puts a message into its channel's order.
func (p *publisher) send(topic string, msg *message.Message, turn *handlers.Turn) error {
	r := record.Outgoing(msg)
	s, err := p.shipment(topic, r, turn)
	if err != nil {
		return err
	}
	c := p.channels[maphash.Comparable(p.seed, laneKey{r.Source.DataCenter, r.Source.Topic, r.Source.Lane})%uint64(len(p.channels))]
	late := false
	if err := turn.Send(func() { late = !c.append(s) }); err != nil {
		return err
	}
	if late {
		turn.Done(handlers.Unavailable(errClosed))
	}
	return nil
}

// shipment makes what is published for r, once its place is known to be there.
func (p *publisher) shipment(topic string, r *record.Record, turn *handlers.Turn) (*shipment, error) {
	s := &shipment{turn: turn, exchange: p.options.Exchange, key: topic}
	place := topic
	if s.exchange != "" {
		place = s.exchange
		var ok bool
		if s.key, ok = p.key.Fill(r); !ok && p.options.RoutingKey != nil {
			return nil, handlers.Permanent(fmt.Errorf("publish to exchange %s: the message lacks what the routing_key %q is to be filled with", place, p.key))
		}
	}
	if len(s.key) > maxShort {
		return nil, handlers.Permanent(fmt.Errorf("publish to %s: a routing key of %d bytes, AMQP allows %d", s.at(), len(s.key), maxShort))
	}
	if err := p.ensure(place); err != nil {
		return nil, err
	}
	var err error
	if s.publishing, err = toPublishing(r); err != nil {
		return nil, err
	}
	if err := fits(&s.publishing, p.frame.Load()); err != nil {
		return nil, handlers.Permanent(fmt.Errorf("publish to %s: %w", s.at(), err))
	}
	return s, nil
}

// run keeps a connection open until the publisher is closed.
func (p *publisher) run(open func() (*link, error)) {
	health, meter := p.destination.Health, p.destination.Meter
	again := false
	handlers.Again(p.ctx, lane.Backoff{Initial: 100 * time.Millisecond, Max: 5 * time.Second}, func() (done bool) {
		l, err := open()
		if err != nil {
			if p.ctx.Err() == nil {
				health.Down(err)
			}
			return false
		}
		if again {
			meter.Reconnects.Add(1)
		}
		again = true
		health.Up()
		p.announce(l)
		err = p.serve(l)
		p.announce(nil)
		if p.ctx.Err() == nil {
			health.Down(fmt.Errorf("connection to rabbitmq: %w", err))
		}
		return false
	})
}

// announce tells those who wait for a connection that there is one, or that there is none any more.
func (p *publisher) announce(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
	if l == nil {
		p.linked = make(chan struct{})
		return
	}
	p.frame.Store(int64(l.conn.Config.FrameSize))
	close(p.linked)
}

// current gives the connection; it waits for one until ctx ends.
func (p *publisher) current(ctx context.Context) (*link, error) {
	for {
		p.mu.Lock()
		l, linked := p.link, p.linked
		p.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-linked:
		case <-ctx.Done():
			return nil, errNoConnection
		}
	}
}

// Close fails what is not confirmed yet, at once, and ends the connection. Closing twice does nothing.
func (p *publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, c := range p.channels {
		c.end()
	}
	p.cancel()
	p.ends.Wait()
	return nil
}

// What becomes of messages without a connection.
var (
	errClosed       = errors.New("the publisher is closed")
	errNoConnection = errors.New("no connection to rabbitmq")
)
