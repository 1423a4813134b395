package rabbitmq

import (
	"net"
	"sync"
	"time"
)

// gate is the connection of a source. Its reads wait while too much of what came is not yet on its way: TCP then holds the broker back, which the
// protocol itself cannot (prefetch counts messages, not bytes). Writes go on meanwhile, acks and heartbeats among them. A peer is silent for too long
// when one read, or one write, took that long: the client's own deadlines would run on while the gate is shut.
type gate struct {
	net.Conn
	silence time.Duration

	mu     sync.Mutex
	change *sync.Cond
	full   func() bool // Nil lets everything pass.
	closed bool
	final  time.Time // Of a close that is under way.
}

func newGate(conn net.Conn, silence time.Duration) *gate {
	g := &gate{Conn: conn, silence: silence}
	g.change = sync.NewCond(&g.mu)
	return g
}

// watch shuts the gate whenever full says so. It is asked before each read, and again after each wake.
func (g *gate) watch(full func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = full
	g.change.Broadcast()
}

// wake says that there may be room again.
func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change.Broadcast()
}

func (g *gate) Read(b []byte) (int, error) {
	g.mu.Lock()
	for !g.closed && g.full != nil && g.full() {
		g.change.Wait()
	}
	closed := g.closed
	var err error
	if !closed {
		err = g.Conn.SetReadDeadline(g.deadline())
	}
	g.mu.Unlock()
	switch {
	case closed:
		return 0, net.ErrClosed
	case err != nil:
		return 0, err
	}
	return g.Conn.Read(b)
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	err := g.Conn.SetWriteDeadline(g.deadline())
	g.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return g.Conn.Write(b)
}

// deadline is that of what begins now.
func (g *gate) deadline() time.Time {
	next := time.Now().Add(g.silence)
	if !g.final.IsZero() && g.final.Before(next) {
		return g.final
	}
	return next
}

// SetReadDeadline does nothing: the client counts from the last frame that it has read.
func (g *gate) SetReadDeadline(time.Time) error { return nil }

// SetDeadline bounds everything from now on, also what is under way. A zero t takes that back.
func (g *gate) SetDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.final = t
	return g.Conn.SetDeadline(g.deadline())
}

// Close ends reads and writes at once.
func (g *gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.change.Broadcast()
	g.mu.Unlock()
	return g.Conn.Close()
}
