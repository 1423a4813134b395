package rabbitmq

import (
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
)

const (
	// returnRoom is how many returns the client may tell of before it has to wait.
	returnRoom = 64
	// sweepInterval is how often it is looked for confirms that overtook others.
	sweepInterval = 500 * time.Millisecond
	// starved is how long returns may be left lying: after 5 s the client drops them.
	starved = 4 * time.Second
)

// What breaks a connection since one cannot tell any more what was returned: the next confirm could be of just that.
var (
	errUnknownReturn = errors.New("a message was returned that was not sent")
	errStarved       = errors.New("this process stood still, and may have missed returned messages")
)

// shipment is one message on its way.
type shipment struct {
	turn          *handlers.Turn
	exchange, key string
	publishing    amqp.Publishing
	confirm       confirmation // Nil until it is written.
	settled       bool         // Its confirm was seen.
	returned      bool         // Its outcome is told; its confirm is still to come.
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
	wake      chan struct{} // For the writing goroutine.
	written   chan struct{} // For the receiving one.

	mu     sync.Mutex
	busy   bool // A message is being written: a large one takes its time.
	idle   bool // The receiving goroutine waits for something to be written.
	flight flight
	ended  bool
	open   *amqp.Channel // Nil while there is none.
	moved  time.Time     // When something was confirmed last, or began to wait for its confirm.
	ending error         // Why it was decided to close the channel.
	search search
}

func newChannel(p *publisher) *channel {
	return &channel{publisher: p, wake: make(chan struct{}, 1), written: make(chan struct{}, 1)}
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
	returns := ch.NotifyReturn(make(chan amqp.Return, returnRoom))
	c.begin(ch)
	received := make(chan struct{})
	var said *amqp.Error
	go func() {
		defer close(received)
		in := receiver{channel: c, link: l, ch: ch, returns: returns, gone: gone}
		said = in.run()
	}()
	c.write(l, ch, received)
	<-received
	ending := c.finish()
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
	c.open, c.moved, c.ending, c.busy = ch, time.Now(), nil, false
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
		for s := c.next(l); s != nil; s = c.next(l) {
			confirm, err := ch.PublishWithDeferredConfirm(s.exchange, s.key, true, false, s.publishing)
			if err != nil {
				if !ch.IsClosed() { // What is half written cannot be taken back.
					l.end(fmt.Errorf("publish to %s: %w", s.at(), err))
				}
				<-received
				return
			}
			c.wrote(s, confirm)
		}
		select {
		case <-c.wake:
		case <-received:
			return
		}
	}
}

// next takes the message that is to be written now; nil when there is none, or when it has to wait.
func (c *channel) next(l *link) *shipment {
	if l.blocked.Load() != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.flight.next()
	if s == nil || c.search.holds(c, len(s.publishing.Body)) {
		return nil
	}
	if c.flight.open == 0 {
		c.moved = time.Now()
	}
	c.busy = true
	return c.flight.write()
}

// wrote notes where the confirm of s will be seen.
func (c *channel) wrote(s *shipment, confirm confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.confirm, c.busy = confirm, false
	if c.idle {
		c.idle = false
		select {
		case c.written <- struct{}{}:
		default:
		}
	}
}

// progressed starts the confirm deadline anew.
func (c *channel) progressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = time.Now()
}

// overdue gives the AMQP channel to be closed, once, when nothing was confirmed for so long. While a message is being written, and the network moves, that counts too.
func (c *channel) overdue(timeout time.Duration, moves bool) *amqp.Channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy && moves {
		c.moved = time.Now()
	}
	if c.open == nil || c.ending != nil || c.flight.open == 0 || time.Since(c.moved) < timeout {
		return nil
	}
	c.ending = fmt.Errorf("%w of %s", errSilent, timeout)
	return c.open
}

// settle ends what was on a channel that is gone. When the exchange is missing, that is found for certain before the next message goes there: those here may
// have come before it went.
func (c *channel) settle(cause error) {
	if isPrecondition(cause) && c.judge(cause) {
		return
	}
	if isMissing(cause) {
		c.publisher.places.forget(c.publisher.options.Exchange)
	}
	c.fail(unavailable(cause))
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
