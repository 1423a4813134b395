package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

const (
	// commitInterval is the longest that settled messages wait for their ack while the window has room.
	commitInterval = 100 * time.Millisecond
	// closeTimeout is how long RabbitMQ may take to say that it has seen the end, and with it all acks.
	closeTimeout = 3 * time.Second
	// standbyRetry is how long an instance that stands by waits at most until it looks again whether the queue is free.
	standbyRetry = 1500 * time.Millisecond
	// maxPrefetch is the most that the protocol can ask for.
	maxPrefetch = 65535
)

// reader reads one queue on a connection of its own. Fetch runs in one goroutine, Commit in another.
type reader struct {
	connection *Connection
	source     handlers.Source
	options    SourceConfig
	backoff    lane.Backoff // Between attempts to connect and to consume.

	mu      sync.Mutex
	current *session // The one whose lane is open, or was last.
}

// line is an open connection of a reader.
type line struct {
	*amqp.Connection
	gate *gate
}

func newReader(c *Connection, s handlers.Source, o SourceConfig) *reader {
	return &reader{
		connection: c, source: s, options: o,
		backoff: lane.Backoff{Initial: 200 * time.Millisecond, Max: 5 * time.Second},
	}
}

// Fetch consumes until ctx ends.
func (r *reader) Fetch(ctx context.Context, in *handlers.Intake) error {
	r.attempts(ctx, func() (again bool, err error) {
		err = r.connect(ctx, in)
		if ctx.Err() == nil {
			r.source.Health.Down(err)
			r.source.Meter.Reconnects.Add(1)
		}
		return true, err
	})
	return ctx.Err()
}

// attempts calls try until it says that there is no use, with pauses that grow while the attempts are short.
func (r *reader) attempts(ctx context.Context, try func() (again bool, err error)) {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		again, err := try()
		if !again || ctx.Err() != nil {
			return
		}
		if time.Since(began) > r.backoff.Max {
			failures = 0
		}
		failures++
		pause := r.backoff.After(failures)
		if errors.Is(err, errStandby) {
			failures = 0
			pause = lane.Backoff{Initial: standbyRetry}.After(1) // At random: not two at the same time.
		}
		handlers.Pause(ctx, pause)
	}
}

// connect consumes on one connection until that is lost or ctx ends. In the latter case it stays open for the last acks.
func (r *reader) connect(ctx context.Context, in *handlers.Intake) error {
	l, err := r.dial(ctx)
	if err != nil {
		return err
	}
	r.attempts(ctx, func() (again bool, _ error) {
		var s *session
		if s, err = r.consume(ctx, l); err == nil {
			err = r.serve(ctx, in, s)
		}
		if l.IsClosed() || ctx.Err() != nil {
			return false, err
		}
		r.source.Health.Down(err)
		return true, err
	})
	if s := r.session(); s == nil || s.line != l || s.dead() {
		_ = l.close()
	}
	return err
}

// close ends the connection. RabbitMQ has seen all acks when it answers; what comes before that is read.
func (l *line) close() error {
	late := time.AfterFunc(closeTimeout, func() { _ = l.gate.Close() })
	defer late.Stop()
	l.gate.watch(nil)
	return l.CloseDeadline(time.Now().Add(closeTimeout))
}

func (r *reader) dial(ctx context.Context) (*line, error) {
	l := &line{}
	silence := 2 * time.Duration(r.connection.config.Heartbeat)
	var err error
	l.Connection, err = r.connection.dial(ctx, "source of "+r.source.Route, func(conn net.Conn) net.Conn {
		l.gate = newGate(conn, silence)
		return l.gate
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// serve hands on what is delivered until the channel is gone, or ctx ends.
func (r *reader) serve(ctx context.Context, in *handlers.Intake, s *session) error {
	r.mu.Lock()
	s.open(in)
	r.current = s // Before anything of the new lane is committed.
	r.mu.Unlock()
	r.source.Health.Up()
	err := s.run(ctx)
	if ctx.Err() != nil && !s.dead() {
		s.finish()
		s.leave()
		return err
	}
	s.inlet.Close()
	s.line.gate.watch(nil)
	if !s.dead() {
		_ = s.channel.Close()
	}
	return err
}

func (r *reader) session() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Commit acks the settled prefix of the open lane with one frame.
func (r *reader) Commit(_ context.Context, settled []handlers.Settled) error {
	s := r.session()
	for _, part := range settled {
		err := errLost
		if part.Inlet == s.inlet {
			err = s.ack(len(part.Records))
		}
		if err != nil {
			return fmt.Errorf("ack messages of queue %s/%s: %w", r.source.DataCenter, r.source.Topic, err)
		}
	}
	return nil
}

// Close closes the connection, once RabbitMQ says that it has seen all acks, or says nothing for a while.
func (r *reader) Close() error {
	s := r.session()
	if s == nil {
		return nil
	}
	err := s.close()
	if err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("close the connection to queue %s/%s: %w: what was acked last may come again", r.source.DataCenter, r.source.Topic, err)
	}
	return nil
}
