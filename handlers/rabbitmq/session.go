package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	// mostAtOnce is how many deliveries are handed to the lane together.
	mostAtOnce = 128
	// finishTime is how long a stop lets what was prefetched go through at most, and finishIdle how long without an ack: to give it back counts
	// as a delivery in a quorum queue, which drops a message after a number of those.
	finishTime = 5 * time.Second
	finishIdle = time.Second
	// silenceTime is how long nothing may have come, and nothing have been acked, for RabbitMQ to have sent all that it may.
	silenceTime = 250 * time.Millisecond
	// stillUp is how often the source is said to be up while nothing comes.
	stillUp = 5 * time.Second
)

// session is one consumer: its channel, and the lane that it fills.
type session struct {
	line       *line
	source     handlers.Source
	channel    *amqp.Channel
	tag        string
	prefetch   int
	deliveries <-chan amqp.Delivery
	closes     chan *amqp.Error
	cancels    chan string

	inlet    *handlers.Inlet
	tags     *tags
	received chan struct{} // Closed when no more deliveries come.
	gone     chan struct{} // Closed when the channel is.
	err      error         // Why; to be read once gone is closed.
	allDone  chan struct{} // The channel is gone, and so is every reason to wait with the next one.

	running sync.WaitGroup
	pausing sync.Mutex // Held while nothing may be acked, and while something is.
	closing atomic.Bool
	mu      sync.Mutex
	left    bool // Nobody but the lane's own end waits for the channel.
}

// errLost is that a channel ended without a word.
var errLost = errors.New("the channel was closed")

// open opens the lane and begins to fill it.
func (s *session) open(in *handlers.Intake) {
	s.tags = newTags(s.source.Bytes / 4)
	s.received, s.gone, s.allDone = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	s.inlet = in.Inlet(s.source.Topic, s.line.gate.wake)
	s.line.gate.watch(s.full)
	s.running.Go(s.receive)
	s.running.Go(s.watch)
}

// receive hands on deliveries, as many at once as there are.
func (s *session) receive() {
	defer s.tags.notify()
	defer close(s.received)
	records := make([]*record.Record, 0, mostAtOnce)
	for d := range s.deliveries {
		records = append(records[:0], s.take(&d))
	more:
		for len(records) < mostAtOnce {
			select {
			case next, ok := <-s.deliveries:
				if !ok {
					break more
				}
				records = append(records, s.take(&next))
			default:
				break more
			}
		}
		if !s.closing.Load() {
			s.inlet.Offer(records...)
		}
		clear(records)
		s.source.Health.Up()
	}
}

func (s *session) take(d *amqp.Delivery) *record.Record {
	r := fromDelivery(s.source.DataCenter, s.source.Topic, d)
	s.tags.add(d.DeliveryTag, r.Size())
	return r
}

// watch waits for the end of the channel. A lane that is draining then is given up: it cannot be acked any more.
func (s *session) watch() {
	if err := <-s.closes; err != nil {
		s.err = fmt.Errorf("consume queue %s/%s: %w", s.source.DataCenter, s.source.Topic, err)
	} else {
		s.err = fmt.Errorf("consume queue %s/%s: %w", s.source.DataCenter, s.source.Topic, errLost)
	}
	close(s.gone)
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if left {
		s.inlet.Close()
	}
}

// leave has the lane given up when the channel ends.
func (s *session) leave() {
	s.mu.Lock()
	s.left = true
	s.mu.Unlock()
	if s.dead() {
		s.inlet.Close()
	}
}

func (s *session) dead() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// run returns when the channel is gone and another one may be opened, when the queue was deleted and all that was fetched of it is
// acked, or when ctx ends.
func (s *session) run(ctx context.Context) error {
	ticker := time.NewTicker(stillUp)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.gone:
			return s.lost(ctx)
		case _, ok := <-s.cancels:
			if ok {
				return s.cancelled(ctx)
			}
			s.cancels = nil
		case <-ticker.C:
			s.source.Health.Up()
		}
	}
}

// lost waits for the destination while there is something that it has not got: each time that it is fetched again counts as a delivery, and a quorum
// queue drops what was delivered too often. The lane, which is still open, finds out when the destination is back.
func (s *session) lost(ctx context.Context) error {
	<-s.received // It may have said that the source is up.
	d := s.source.Destination
	if !down(d) || s.tags.count() == 0 {
		return s.err
	}
	select {
	case <-s.allDone: // That was said of fewer messages.
	default:
	}
	s.source.Health.Down(fmt.Errorf("%w; it is consumed again when the destination is back", s.err))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Await(ctx)
	}()
	select {
	case <-done:
	case <-s.allDone:
		cancel()
		<-done
	}
	return s.err
}

// down reports whether the destination is known not to answer.
func down(destination *handlers.Health) bool {
	up, _, _ := destination.State()
	return !up && destination.Known()
}

// cancelled lets everything that was fetched before the queue went away settle: there may be no other copy of it.
func (s *session) cancelled(ctx context.Context) error {
	err := fmt.Errorf("consume queue %s/%s: RabbitMQ cancelled the consumer, as it does when the queue is deleted or moved", s.source.DataCenter, s.source.Topic)
	s.source.Health.Down(err)
	for !s.empty() {
		select {
		case <-s.tags.moved:
		case <-s.gone:
			return s.lost(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// empty reports whether everything that was delivered is acked, and nothing more comes.
func (s *session) empty() bool {
	select {
	case <-s.received:
		return s.tags.count() == 0
	default:
		return false
	}
}

// finish ends the consumer, and lets what was prefetched go through while it does and the destination is up.
func (s *session) finish() {
	if down(s.source.Destination) || !s.stop() {
		return
	}
	end := time.NewTimer(finishTime)
	defer end.Stop()
	idle := time.NewTimer(finishIdle)
	defer idle.Stop()
	for !s.empty() && !down(s.source.Destination) {
		select {
		case <-s.tags.moved:
			idle.Reset(finishIdle)
		case <-idle.C:
			return
		case <-end.C:
			return
		case <-s.gone:
			return
		}
	}
}

// stop cancels the consumer and reports whether that was possible: not when the gate is shut. What is on its way to a consumer that is cancelled goes
// back into a quorum queue in any order (RabbitMQ 3.10), so nothing may be on its way: without acks RabbitMQ falls silent.
func (s *session) stop() bool {
	s.pausing.Lock() // No acks.
	defer s.pausing.Unlock()
	end := time.NewTimer(finishIdle)
	defer end.Stop()
	silence := time.NewTicker(silenceTime / 5)
	defer silence.Stop()
	for s.tags.count() < s.prefetch && (s.full() || time.Since(s.tags.latest()) < silenceTime) {
		select {
		case <-silence.C:
		case <-end.C:
			return false
		case <-s.gone:
			return false
		}
	}
	late := time.AfterFunc(closeTimeout, func() { _ = s.line.gate.Close() })
	defer late.Stop()
	return s.channel.Cancel(s.tag, true) == nil
}

// full reports whether more of what came waits than may.
func (s *session) full() bool { return s.tags.full(s.inlet.Backlog()) }

// ack acks the n oldest deliveries.
func (s *session) ack(n int) error {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if s.dead() {
		if n >= s.tags.count()-s.inlet.Backlog() {
			select {
			case s.allDone <- struct{}{}:
			default:
			}
		}
		return s.err
	}
	if err := s.channel.Ack(s.tags.oldest(n), true); err != nil {
		return err
	}
	s.tags.acked(n)
	s.line.gate.wake()
	return nil
}

// close ends the connection, and waits for what the session runs.
func (s *session) close() error {
	s.closing.Store(true) // What still comes is thrown away.
	err := s.line.close()
	s.running.Wait()
	return err
}
