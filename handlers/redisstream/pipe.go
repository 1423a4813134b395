package redisstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	// idleTime is how long a socket stays open without anything to send.
	idleTime = 3 * time.Minute
	// lastWordsTime is how long a connection that cannot be written to is still read.
	lastWordsTime = time.Second
)

// What ends a connection, beside its own errors.
var (
	errSilent = errors.New("no reply within the confirm_timeout")
	errIdle   = errors.New("nothing to send")
)

// pending is a message on its way, or, without a turn, a question of WAIT or WAITAOF about those before it.
type pending struct {
	turn   *handlers.Turn
	record *record.Record
	stream string
}

// pipe is one ordered stream of messages to the server, over one connection after the other. A message goes from appended, to sent when it
// is being written, to stored when its XADD was answered and replicas are asked for. Whatever ends a connection, all of the three
// fail before another one is dialled: so the lane knows of the failure before anything can overtake.
type pipe struct {
	publisher *publisher
	wake      chan struct{}

	mu       sync.Mutex
	appended []pending
	sent     []pending
	asking   int  // Questions whose answers are not all there.
	again    bool // The last answers were too few.
	ended    bool

	// The reading goroutine's, and run's while there is none.
	stored  []pending
	short   error   // Which of the answers so far was too little.
	suspect suspect // What was last answered with an error that may be the message's fault, or a proxy's.
}

// suspect is a message that may have to be refused.
type suspect struct{ id, stream string }

func newPipe(p *publisher) *pipe {
	return &pipe{publisher: p, wake: make(chan struct{}, 1)}
}

// append takes a message, and reports false when the pipe has ended. It never blocks.
func (p *pipe) append(m pending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.appended = append(p.appended, m)
	if len(p.appended) == 1 {
		p.notify()
	}
	return true
}

func (p *pipe) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run serves one connection after the other until the publisher is closed.
func (p *pipe) run() {
	ctx := p.publisher.ctx
	meter := p.publisher.destination.Meter
	connected := false
	for p.await(ctx) {
		w, err := p.publisher.open(ctx)
		if err != nil {
			p.fail(err)
			continue
		}
		w.sound = p.suspect != suspect{} && w.knows(ctx, p.suspect.stream)
		if connected {
			meter.Reconnects.Add(1)
		}
		err = p.serve(ctx, w)
		connected = !errors.Is(err, errIdle)
		if p.unanswered() {
			p.fail(err)
		}
	}
	p.end()
}

// await waits for something to send.
func (p *pipe) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		p.mu.Lock()
		n := len(p.appended)
		p.mu.Unlock()
		if n > 0 {
			return true
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
	}
	return false
}

// serve writes what is appended, while another goroutine reads the replies, until the connection breaks, was idle for long, or ctx
// ends, and returns the cause. What was sent and not answered is left over.
func (p *pipe) serve(ctx context.Context, w *wire) error {
	received := make(chan struct{})
	go func() {
		defer close(received)
		w.end(p.receive(w))
	}()
	w.end(p.write(ctx, w, received))
	<-received
	return w.cause
}

func (p *pipe) write(ctx context.Context, w *wire, received <-chan struct{}) error {
	silence := time.Duration(p.publisher.options.ConfirmTimeout)
	ticker := time.NewTicker(silence / 8)
	defer ticker.Stop()
	var batch []pending
	for {
		if w.quiet() > silence && p.unanswered() {
			return errSilent
		}
		var ask bool
		if batch, ask = p.next(batch); len(batch) > 0 || ask {
			if err := w.send(batch, ask); err != nil {
				lastWords(received)
				return err
			}
			clear(batch)
			continue
		}
		select {
		case <-p.wake:
		case <-ticker.C:
			if w.quiet() > idleTime && p.idle() {
				return errIdle
			}
		case <-received:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lastWords gives the other goroutine time to read what the server said before it hung up: why, and to which message.
func lastWords(received <-chan struct{}) {
	timer := time.NewTimer(lastWordsTime)
	defer timer.Stop()
	select {
	case <-received:
	case <-timer.C:
	}
}

// next moves what is appended to what is sent, and returns it, in a slice that is not spare, which becomes the next one. Ask says to
// put the questions after it. While there are questions open there is nothing next: one answer is for many messages.
func (p *pipe) next(spare []pending) (batch []pending, ask bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking > 0 {
		return spare[:0], false
	}
	batch, p.appended = p.appended, spare[:0]
	p.sent = append(p.sent, batch...)
	questions := len(p.publisher.questions)
	if questions == 0 || len(batch) == 0 && !p.again {
		return batch, false
	}
	for range questions {
		p.sent = append(p.sent, pending{})
	}
	p.asking, p.again = questions, false
	return batch, true
}

// unanswered reports whether there is anything whose outcome is open on the connection.
func (p *pipe) unanswered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent)+len(p.stored) > 0
}

func (p *pipe) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.appended)+len(p.sent)+len(p.stored) == 0
}

// fail tells the lanes of everything appended, sent and stored, lowest first, until there is nothing more. What is appended meanwhile
// came before its lane knew, and fails too: it must not reach the next connection.
func (p *pipe) fail(err error) {
	for {
		p.mu.Lock()
		lost := append(p.stored, p.sent...)
		lost = append(lost, p.appended...)
		p.stored, p.sent, p.appended = nil, nil, nil
		p.asking, p.again, p.short = 0, false, nil
		p.mu.Unlock()
		if len(lost) == 0 {
			return
		}
		for _, m := range lost {
			if m.turn != nil {
				m.turn.Done(handlers.Unavailable(err))
			}
		}
	}
}

// end fails what is left, and takes no more.
func (p *pipe) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.fail(errClosed)
}
