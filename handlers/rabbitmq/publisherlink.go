package rabbitmq

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// partingTime is how long a connection that is closed on purpose may take to say good-bye.
	partingTime = 500 * time.Millisecond
	// watchInterval is how often it is looked whether confirms come.
	watchInterval = time.Second
)

// errSilent ends a channel whose messages are not confirmed.
var errSilent = errors.New("nothing was confirmed within the confirm_timeout")

// link is one AMQP connection of a publisher.
type link struct {
	conn    *amqp.Connection
	out     *outlet
	gone    chan *amqp.Error   // Closed when the connection is.
	blocks  chan amqp.Blocking // RabbitMQ's word that it takes nothing more for now.
	blocked atomic.Pointer[blockedError]

	mu    sync.Mutex
	cause error
}

// blockedError is RabbitMQ's reason to take nothing.
type blockedError struct{ reason string }

func (e *blockedError) Error() string {
	return "rabbitmq takes no messages for now: " + e.reason
}

// open dials.
func (p *publisher) open() (*link, error) {
	l := &link{gone: make(chan *amqp.Error, 1), blocks: make(chan amqp.Blocking, 8)}
	silence := 2 * time.Duration(p.connection.config.Heartbeat)
	conn, err := p.connection.dial(p.ctx, "route "+p.destination.Route+", publisher", func(n net.Conn) net.Conn {
		l.out = newOutlet(n, silence)
		return l.out
	})
	if err != nil {
		return nil, err
	}
	l.conn = conn
	conn.NotifyClose(l.gone)
	conn.NotifyBlocked(l.blocks)
	return l, nil
}

// end breaks the connection, whatever it is doing. The first cause is kept.
func (l *link) end(cause error) {
	l.mu.Lock()
	if l.cause == nil {
		l.cause = cause
	}
	l.mu.Unlock()
	l.out.fail(cause)
}

// why tells what ended the connection: said is what its client knows.
func (l *link) why(said *amqp.Error) error {
	if said != nil && said.Server {
		return said
	}
	l.mu.Lock()
	cause := l.cause
	l.mu.Unlock()
	if cause == nil {
		cause = l.out.failure()
	}
	switch {
	case cause != nil:
		return cause
	case said != nil:
		return said
	}
	return errors.New("it was closed")
}

// part closes the connection as it should be, if that is quick.
func (l *link) part() {
	timer := time.AfterFunc(partingTime, func() { l.end(errClosed) })
	defer timer.Stop()
	_ = l.conn.Close()
}

// serve lets the channels work over the connection until it is gone, and returns why it is.
func (p *publisher) serve(l *link) error {
	var running sync.WaitGroup
	for _, c := range p.channels {
		running.Go(func() {
			if err := c.run(l); err != nil {
				l.end(err)
			}
		})
	}
	closed := p.ctx.Done()
	ticker := time.NewTicker(min(watchInterval, time.Duration(p.options.ConfirmTimeout)/4))
	defer ticker.Stop()
	for {
		select {
		case said := <-l.gone:
			err := l.why(said)
			l.end(err)
			running.Wait()
			return err
		case b, ok := <-l.blocks:
			if !ok {
				l.blocks = nil
				continue
			}
			p.block(l, b)
		case <-ticker.C:
			p.look(l, &running)
		case <-closed:
			closed = nil
			running.Go(l.part)
		}
	}
}

// block takes RabbitMQ's word that it is blocked, or is not any more.
func (p *publisher) block(l *link, b amqp.Blocking) {
	if b.Active {
		err := &blockedError{b.Reason}
		l.blocked.Store(err)
		p.destination.Health.Down(err)
		return
	}
	l.blocked.Store(nil)
	p.destination.Health.Up()
	for _, c := range p.channels {
		c.progressed()
		c.notify()
	}
}

// look closes the channels on which nothing is confirmed. While RabbitMQ is blocked, nothing can be.
func (p *publisher) look(l *link, running *sync.WaitGroup) {
	if err := l.blocked.Load(); err != nil {
		p.destination.Health.Down(err) // Confirms of what came before have shown it up.
		for _, c := range p.channels {
			c.progressed()
		}
		return
	}
	moved := l.out.moved()
	for _, c := range p.channels {
		if ch := c.overdue(time.Duration(p.options.ConfirmTimeout), moved); ch != nil {
			running.Go(func() { l.expire(ch) })
		}
	}
}

// expire closes a channel, so that the outcome of everything on it is known, or the connection when that is not answered.
func (l *link) expire(ch *amqp.Channel) {
	timer := time.AfterFunc(answerTimeout/2, func() { l.end(fmt.Errorf("%w, and the channel could not be closed", errSilent)) })
	defer timer.Stop()
	_ = ch.Close()
}
