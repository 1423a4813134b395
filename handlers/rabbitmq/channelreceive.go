package rabbitmq

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
)

// receiver takes the client's word about what was written to one AMQP channel. The client's list of confirms is not used: in it an ack of several becomes an ack of
// those among them that were nacked before. What it keeps for each message is right.
type receiver struct {
	channel *channel
	link    *link
	ch      *amqp.Channel
	returns <-chan amqp.Return
	gone    <-chan *amqp.Error

	lost   bool // Nothing is to be believed any more.
	looked time.Time
	landed []*shipment
}

// run works until the channel is gone, and returns what was said of that.
func (r *receiver) run() *amqp.Error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	r.looked = time.Now()
	for {
		if r.lost { // What is not told by now fails with the connection.
			return <-r.gone
		}
		select {
		case <-r.channel.oldest():
			r.sweep(false)
		case <-r.channel.written:
		case back, ok := <-r.returns:
			if ok {
				r.take(&back)
			} else {
				r.returns = nil
			}
		case <-ticker.C:
			r.sweep(true)
		case said := <-r.gone:
			r.sweep(true)
			return said
		}
		r.awake()
	}
}

// awake breaks the connection when nobody looked at the returns for so long that the client may have dropped some.
func (r *receiver) awake() {
	now := time.Now()
	if now.Sub(r.looked) > starved {
		r.distrust(errStarved)
	}
	r.looked = now
}

func (r *receiver) distrust(cause error) {
	r.lost = true
	r.link.end(cause)
}

// sweep tells of the messages whose confirms are there: from the oldest on, or all. A return comes before its confirm, on the same way: so all returns
// that are there are taken before a confirm is believed.
func (r *receiver) sweep(all bool) {
	c := r.channel
	c.mu.Lock()
	n := c.flight.look(r.ch, all)
	c.mu.Unlock()
	r.drain()
	if r.awake(); r.lost {
		return
	}
	c.mu.Lock()
	r.landed = c.flight.land(n, r.landed[:0])
	if len(r.landed) > 0 {
		c.moved = time.Now()
		if c.flight.open == 0 && c.search.landed() {
			c.notify()
		}
	}
	c.mu.Unlock()
	for _, s := range r.landed {
		c.tell(s)
	}
	clear(r.landed)
}

// drain takes the returns that are there.
func (r *receiver) drain() {
	for {
		select {
		case back, ok := <-r.returns:
			if !ok {
				r.returns = nil
				return
			}
			r.take(&back)
		default:
			return
		}
	}
}

// take takes a message that no queue took.
func (r *receiver) take(back *amqp.Return) {
	if r.lost {
		return
	}
	c := r.channel
	c.mu.Lock()
	s, ended := c.flight.match(back), c.ended
	c.mu.Unlock()
	switch {
	case s == nil && !ended:
		r.distrust(errUnknownReturn)
	case s != nil:
		if s.exchange == "" {
			c.publisher.places.forget(s.key)
		}
		s.turn.Done(handlers.Unroutable(fmt.Errorf("publish to %s: returned by rabbitmq: %d %s", s.at(), back.ReplyCode, back.ReplyText)))
	}
}

// oldest gives what is closed at the next confirm, if there is any to come.
func (c *channel) oldest() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.flight.oldest(); s != nil && s.confirm != nil {
		return s.confirm.Done()
	}
	c.idle = true
	return nil
}

// tell tells the outcome of a message that was confirmed, by an ack or a nack.
func (c *channel) tell(s *shipment) {
	switch {
	case s.returned:
	case s.confirm.Acked():
		c.publisher.sizes.confirmed(len(s.publishing.Body))
		s.turn.Done(nil)
	default:
		s.turn.Done(handlers.Full(fmt.Errorf("publish to %s: rabbitmq did not take it: the queue is full, or it could not be stored", s.at())))
	}
}
