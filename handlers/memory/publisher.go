package memory

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

var errClosed = errors.New("publish: the publisher is closed")

// publisher is one connection to a site: what is put into its queue is answered in order, by one goroutine.
type publisher struct {
	site    *Site
	options DestinationConfig

	mu    sync.Mutex
	queue []sent
	spare []sent

	wake    chan struct{}
	closing chan struct{}
	done    chan struct{}
	close   sync.Once
	ended   atomic.Bool // Nobody answers any more. It is set with mu held.
}

// sent is a message that awaits its answer.
type sent struct {
	topic  string
	record *record.Record
	turn   *handlers.Turn
}

func newPublisher(s *Site, options DestinationConfig) *publisher {
	p := &publisher{
		site: s, options: options,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run()
	return p
}

// Publish sends messages and returns when all are confirmed, or with the error of the first that is not.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		s := sent{topic: topic, record: record.Outgoing(msg), turn: handlers.TurnOf(msg)}
		if err := s.turn.Send(func() { p.put(s) }); err != nil {
			return err
		}
		if p.ended.Load() {
			p.abandon()
		}
		if err := s.turn.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// Close fails what is not answered yet. It may be called again.
func (p *publisher) Close() error {
	p.close.Do(func() { close(p.closing) })
	<-p.done
	return nil
}

func (p *publisher) put(s sent) {
	p.mu.Lock()
	p.queue = append(p.queue, s)
	first := len(p.queue) == 1
	p.mu.Unlock()
	if first {
		notify(p.wake)
	}
}

// take empties the queue. What it returned before is no longer valid then.
func (p *publisher) take() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.queue
	clear(p.spare)
	p.queue, p.spare = p.spare[:0], taken
	return taken
}

func (p *publisher) run() {
	defer close(p.done)
	for {
		select {
		case <-p.wake:
			p.answerAll()
		case <-p.closing:
			p.abandon()
			return
		}
	}
}

func (p *publisher) answerAll() {
	for {
		batch := p.take()
		switch {
		case len(batch) == 0:
			return
		case p.isClosing():
			p.fail(batch, handlers.Unavailable(errClosed))
			return
		}
		for i := range batch {
			if err := p.answer(batch[i]); err != nil {
				p.fail(batch[i+1:], err)
				break
			}
		}
	}
}

func (p *publisher) isClosing() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// answer decides about one message and says so. It returns an error when the connection broke over it.
func (p *publisher) answer(s sent) error {
	v := p.site.verdict(s.topic, s.record)
	if v.gate != nil {
		select {
		case <-v.gate:
		case <-p.closing:
			v = Verdict{err: handlers.Unavailable(errClosed), unstored: true, breaks: true}
		}
	}
	if !v.unstored {
		p.site.store(s.topic, s.record, p.options)
	}
	s.turn.Done(v.err)
	if v.breaks {
		return v.err
	}
	return nil
}

// fail ends a connection: everything that was put into it fails, in order, before anything is put into the next. A lane whose first
// message has failed puts nothing more, so once the queue is empty nothing of this connection is left.
func (p *publisher) fail(rest []sent, err error) {
	for {
		for _, s := range rest {
			s.turn.Done(err)
		}
		rest = p.take()
		if len(rest) == 0 {
			return
		}
	}
}

// abandon fails what nobody will answer.
func (p *publisher) abandon() {
	p.mu.Lock()
	p.ended.Store(true)
	left := p.queue
	p.queue = nil
	p.mu.Unlock()
	for _, s := range left {
		s.turn.Done(handlers.Unavailable(errClosed))
	}
}
