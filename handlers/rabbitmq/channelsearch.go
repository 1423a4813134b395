package rabbitmq

import (
	"fmt"
	"sync/atomic"

	"github.com/mqferry/mqferry/handlers"
)

// sizes is what is known of how large a message RabbitMQ takes: it does not tell its max_message_size, and closes the channel over a larger one.
type sizes struct {
	doubted  atomic.Bool  // It closed a channel.
	accepted atomic.Int64 // The largest body that it confirmed since.
}

func (s *sizes) confirmed(size int) {
	for {
		largest := s.accepted.Load()
		if int64(size) <= largest || s.accepted.CompareAndSwap(largest, int64(size)) {
			return
		}
	}
}

// doubt notes that one of several messages is at fault, and nobody can say which one.
func (s *sizes) doubt() {
	s.doubted.Store(true)
	s.accepted.Store(0)
}

// search finds the message over which RabbitMQ closes a channel, with an error that is nobody's yet. A message is at fault only when it was alone on the
// channel. So after such a close whatever is larger than all that was confirmed is sent alone; a size that passes lets its like go together again.
// When that did not find it, as many as were on the channel go alone, whatever their size.
type search struct {
	alone bool // What is written is alone, and nothing follows until it is confirmed.
	held  bool // The next one waits until nothing is open.
	vain  bool // The last close found nobody.
	left  int  // So many go alone.
}

// holds reports whether a message with such a body has to wait now. When it does not, it is about to be written. c.mu is held.
func (s *search) holds(c *channel, size int) bool {
	doubtful := s.left > 0 || c.publisher.sizes.doubted.Load() && int64(size) > c.publisher.sizes.accepted.Load()
	if s.held = (doubtful || s.alone) && c.flight.open > 0; s.held {
		return true
	}
	s.alone = doubtful
	return false
}

// landed notes that nothing is open any more, and reports whether something waits for that.
func (s *search) landed() bool {
	if s.alone && s.left > 0 {
		s.left--
	}
	held := s.held
	s.alone, s.held = false, false
	return held
}

// judge looks for the message at fault after RabbitMQ closed the channel. It reports false when there were several: then they are to fail together.
func (c *channel) judge(cause error) bool {
	c.mu.Lock()
	guilty := c.flight.only()
	if guilty == nil {
		if c.search.vain {
			c.search.left = c.flight.open
		}
		c.search.vain, c.search.alone = c.flight.open > 0, false
		c.publisher.sizes.doubt()
		c.mu.Unlock()
		return false
	}
	guilty.settled = true
	c.flight.land(c.flight.written, nil)
	c.search = search{}
	c.mu.Unlock()
	c.publisher.sizes.doubted.Store(true)
	guilty.turn.Done(handlers.Permanent(fmt.Errorf("publish to %s: refused alone, with a body of %d bytes: %w", guilty.at(), len(guilty.publishing.Body), cause)))
	c.recallBehind(guilty)
	return true
}

// recallBehind gives back to its lane what is queued behind a message that was refused: nothing of the lane is sent above it before it is settled. What is queued
// of other lanes goes on.
func (c *channel) recallBehind(guilty *shipment) {
	c.mu.Lock()
	var recalled []*shipment
	kept := c.flight.all[:0]
	for _, s := range c.flight.all[c.flight.head:] {
		if s.turn.SharesLane(guilty.turn) {
			recalled = append(recalled, s)
		} else {
			kept = append(kept, s)
		}
	}
	clear(c.flight.all[len(kept):])
	c.flight.all, c.flight.head = kept, 0
	c.mu.Unlock()
	for _, s := range recalled {
		s.turn.Done(handlers.ErrTurnLost)
	}
}

// only gives the one message that was written and has no outcome, if there is exactly one.
func (f *flight) only() *shipment {
	if s := f.oldest(); f.open == 1 && !s.returned {
		return s
	}
	return nil
}
