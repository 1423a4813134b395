package rabbitmq

import (
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
)

// Room for what the client has to say, so that it does not have to wait for a goroutine to be scheduled.
const (
	confirmRoom = 1024
	returnRoom  = 64
)

// errUnknownReturn breaks a connection on which one cannot tell what was returned: the next confirm could be of just that.
var errUnknownReturn = errors.New("a message was returned that was not sent")

// shipment is one message on its way.
type shipment struct {
	turn          *handlers.Turn
	exchange, key string
	publishing    amqp.Publishing
	returned      bool // Its outcome is told; its confirm is still to come.
}

// at names where a shipment goes.
func (s *shipment) at() string { return placeOf(s.exchange, s.key) }

func placeOf(exchange, key string) string {
	if exchange == "" {
		return "queue " + key
	}
	return fmt.Sprintf("exchange %s with key %q", exchange, key)
}

// channel is one ordered stream of messages, over one AMQP channel after the other. Whatever ends one, everything that was handed over fails before the
// next one is opened: so the lanes know of the failure before anything can overtake.
type channel struct {
	publisher *publisher
	wake      chan struct{}

	mu     sync.Mutex
	flight flight
	ended  bool
	open   *amqp.Channel // Nil while there is none.
	moved  time.Time     // When something was confirmed last, or began to wait for its confirm.
	ending error         // Why it was decided to close the channel.
	search search
}

func newChannel(p *publisher) *channel {
	return &channel{publisher: p, wake: make(chan struct{}, 1)}
}

// append takes a message, and reports false when the channel has ended. It never blocks.
func (c *channel) append(s *shipment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.flight.push(s)
	if c.flight.queued() == 1 {
		c.notify()
	}
	return true
}

func (c *channel) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run serves one AMQP channel after the other until the connection is gone. It returns an error when no channel can be had.
func (c *channel) run(l *link) error {
	for {
		ch, err := l.conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		switch {
		case l.conn.IsClosed():
			return nil
		case err != nil:
			return fmt.Errorf("open a channel: %w", err)
		}
		c.settle(c.serve(l, ch))
	}
}

// serve publishes over ch until it is gone, and returns why it is.
func (c *channel) serve(l *link, ch *amqp.Channel) error {
	gone := ch.NotifyClose(make(chan *amqp.Error, 1))
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, confirmRoom))
	returns := ch.NotifyReturn(make(chan amqp.Return, returnRoom))
	c.begin(ch)
	received := make(chan struct{})
	go func() {
		defer close(received)
		c.receive(l, confirms, returns)
	}()
	c.write(l, ch, received)
	<-received
	ending := c.finish()
	said := <-gone
	switch {
	case said != nil && said.Server:
		return said
	case ending != nil:
		return ending
	}
	return l.why(said)
}

func (c *channel) begin(ch *amqp.Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.moved, c.ending = ch, time.Now(), nil
	c.flight.begin()
}

func (c *channel) finish() (ending error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = nil
	return c.ending
}

// write publishes what is handed over, in its order, until the channel is gone.
func (c *channel) write(l *link, ch *amqp.Channel, received <-chan struct{}) {
	for {
		if l.blocked.Load() == nil {
			if s := c.next(); s != nil {
				err := ch.Publish(s.exchange, s.key, true, false, s.publishing)
				if err == nil {
					continue
				}
				if !ch.IsClosed() { // It may have been counted or not, so the tags do not fit any more.
					l.end(fmt.Errorf("publish to %s: %w", s.at(), err))
				}
				<-received
				return
			}
		}
		select {
		case <-c.wake:
		case <-received:
			return
		}
	}
}

// next takes the message that is to be written now; nil when there is none, or when it has to wait for others.
func (c *channel) next() *shipment {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.flight.next()
	if s == nil || c.search.holds(c, len(s.publishing.Body)) {
		return nil
	}
	if c.flight.open == 0 {
		c.moved = time.Now()
	}
	return c.flight.write()
}

// receive takes the client's word about what was written. A return comes before its confirm, on the same way: all returns that are there are taken before a
// confirm is believed.
func (c *channel) receive(l *link, confirms <-chan amqp.Confirmation, returns <-chan amqp.Return) {
	lost := false // Confirms are not to be believed any more.
	take := func(r *amqp.Return) {
		if !lost && !c.returned(r) {
			lost = true
			l.end(errUnknownReturn)
		}
	}
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			take(&r)
		case a, ok := <-confirms:
			for more := true; more; {
				select {
				case r, is := <-returns:
					if more = is; is {
						take(&r)
					}
				default:
					more = false
				}
			}
			if !ok {
				return
			}
			if !lost {
				c.confirmed(a)
			}
		}
	}
}

// confirmed takes a confirm, of an ack or a nack.
func (c *channel) confirmed(a amqp.Confirmation) {
	c.mu.Lock()
	s := c.flight.confirm(a.DeliveryTag)
	c.moved = time.Now()
	if c.search.alone && c.flight.open == 0 {
		c.search.passed()
		c.notify()
	}
	c.mu.Unlock()
	switch {
	case s == nil || s.returned:
	case a.Ack:
		c.publisher.sizes.confirmed(len(s.publishing.Body))
		s.turn.Done(nil)
	default:
		s.turn.Done(handlers.Full(fmt.Errorf("publish to %s: rabbitmq did not take it: the queue is full, or it could not be stored", s.at())))
	}
}

// returned takes a message that no queue took. It reports false when it is not known.
func (c *channel) returned(r *amqp.Return) bool {
	c.mu.Lock()
	s, ended := c.flight.match(r), c.ended
	c.mu.Unlock()
	if s == nil {
		return ended
	}
	if s.exchange == "" {
		c.publisher.places.forget(s.key)
	}
	s.turn.Done(handlers.Unroutable(fmt.Errorf("publish to %s: returned by rabbitmq: %d %s", s.at(), r.ReplyCode, r.ReplyText)))
	return true
}

// progressed starts the confirm deadline anew.
func (c *channel) progressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = time.Now()
}

// overdue gives the AMQP channel to be closed, once, when nothing was confirmed for so long.
func (c *channel) overdue(timeout time.Duration) *amqp.Channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil || c.ending != nil || c.flight.open == 0 || time.Since(c.moved) < timeout {
		return nil
	}
	c.ending = fmt.Errorf("%w of %s", errSilent, timeout)
	return c.open
}

// settle ends what was on a channel that is gone.
func (c *channel) settle(cause error) {
	if isPrecondition(cause) && c.judge(cause) {
		return
	}
	if isMissing(cause) {
		c.publisher.places.forget(c.publisher.options.Exchange)
	}
	c.fail(classify(cause))
}

// fail tells the lanes of everything written and queued, lowest first, until there is nothing more. What is appended meanwhile came before its lane knew,
// and fails too: it must not reach the next channel.
func (c *channel) fail(err error) {
	for {
		c.mu.Lock()
		lost := c.flight.take()
		c.mu.Unlock()
		if len(lost) == 0 {
			return
		}
		for _, s := range lost {
			s.turn.Done(err)
		}
	}
}

// end fails what is there, and takes no more.
func (c *channel) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.fail(handlers.Unavailable(errClosed))
}
