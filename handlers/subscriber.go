package handlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers/lane"
)

// Reader is what a broker adds to make a pipelined subscriber: how to fetch, and how to ack.
type Reader interface {
	// Fetch reads from the source until ctx ends, reconnecting by itself for ever, and hands what it reads to an Inlet of in for each lane.
	// When it returns early, it is called again after a pause.
	Fetch(ctx context.Context, in *Intake) error
	// Commit acks messages at the source: per lane the next part of its settled prefix. It is called by one goroutine at a time, and
	// again with the same messages, and perhaps more, after an error. Ctx ends when the subscriber gives up.
	Commit(ctx context.Context, settled []Settled) error
	// Close ends the reader's connections. It is called once, after everything is committed.
	Close() error
}

// Subscriber is a message.Subscriber for one topic that emits its lanes through an Intake. Closing it stops the intake, lets what
// was sent settle, commits, and closes the reader; Abort gives the lanes up instead. Its messages carry their record and their ticket. Use
// it from several goroutines freely; subscribe once.
type Subscriber struct {
	source Source
	reader Reader
	intake *Intake

	mu         sync.Mutex
	subscribed bool
	stop       context.CancelFunc
	abort      context.CancelFunc
	closed     chan struct{}
	err        error
}

// ErrSubscribed is a mistake of the program that uses a subscriber.
var ErrSubscribed = errors.New("a subscriber serves one Subscribe, and none after Close: make another")

// NewSubscriber makes a subscriber of source. Acks are sent at most every interval while the window has room, at once when it has not.
func NewSubscriber(source Source, reader Reader, interval time.Duration) *Subscriber {
	return &Subscriber{
		source: source, reader: reader,
		intake: newIntake(source, reader.Commit, interval),
		closed: make(chan struct{}),
	}
}

// Subscribe starts to fetch and returns the channel of messages. It does not wait for the broker. The end of ctx stops the intake as
// Close does. The topic is that of the source: the argument is not looked at.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		return nil, ErrSubscribed
	}
	s.subscribed = true
	fetching, stop := context.WithCancel(ctx)
	life, abort := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.abort = stop, abort
	s.intake.start(life)
	go s.run(fetching)
	return s.intake.out, nil
}

// run fetches until the intake is stopped, waits until the lanes are empty, and closes the reader.
func (s *Subscriber) run(fetching context.Context) {
	defer close(s.closed)
	s.fetch(fetching)
	s.intake.stop()
	<-s.intake.done
	s.err = s.reader.Close()
}

func (s *Subscriber) fetch(ctx context.Context) {
	Again(ctx, lane.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second}, func() bool {
		err := s.reader.Fetch(ctx, s.intake)
		if ctx.Err() == nil {
			s.source.Health.Down(err)
			s.source.Meter.Reconnects.Add(1)
		}
		return false
	})
}

// Close stops the intake and waits until the lanes are empty and committed, or Abort is called.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.subscribed {
		s.subscribed = true
		s.stop, s.abort = func() {}, func() {}
		s.err = s.reader.Close()
		close(s.closed)
	}
	s.mu.Unlock()
	s.stop()
	<-s.closed
	return s.err
}

// Abort gives up all lanes at once: what is not settled and committed will be delivered again by the source. It does not wait.
func (s *Subscriber) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		s.stop()
		s.abort()
		s.intake.abandon()
	}
}

// Lanes tells what each lane is doing, by its name.
func (s *Subscriber) Lanes() map[string]lane.State { return s.intake.lanes() }
