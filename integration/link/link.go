package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds the wait for the server behind the link.
const dialTimeout = 5 * time.Second

// Link is a TCP proxy whose behaviour can be changed while it runs. All methods are safe for concurrent use.
type Link struct {
	address  string
	upstream string
	delay    atomic.Int64 // one way, in nanoseconds
	up, down limiter
	buffers  sync.Pool
	accepted atomic.Int64
	running  sync.WaitGroup

	mu          sync.Mutex
	listener    net.Listener // nil while cut or closed
	connections map[*connection]struct{}
	passing     chan struct{} // closed while bytes may pass
	closed      bool
}

// New listens on the address listen ("127.0.0.1:0" chooses a free port) and forwards every connection to upstream, at
// first with no delay and no limit. The caller closes the link.
func New(listen, upstream string) (*Link, error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", upstream, err)
	}
	l := &Link{
		address:     listener.Addr().String(),
		upstream:    upstream,
		connections: map[*connection]struct{}{},
		passing:     make(chan struct{}),
	}
	l.buffers.New = func() any { return new([bufferSize]byte) }
	close(l.passing)
	l.listen(listener)
	return l, nil
}

// Address is the host:port that a client connects to. It stays the same through Cut and Heal.
func (l *Link) Address() string { return l.address }

// Accepted is how many connections the link has taken so far, those included that got no further than to it.
func (l *Link) Accepted() int { return int(l.accepted.Load()) }

// Delay sets the round-trip time that the link adds: half of it each way, counted from the arrival of each byte, with
// as many bytes on the way as fit into 64 MiB for each direction of a connection. Bytes already on the way keep
// their old delay. Zero means no delay.
func (l *Link) Delay(roundTrip time.Duration) { l.delay.Store(int64(roundTrip / 2)) }

// Bandwidth limits each direction to so many bytes per second, shared by all connections. Zero means no limit.
func (l *Link) Bandwidth(bytesPerSecond int64) {
	l.up.limit(bytesPerSecond)
	l.down.limit(bytesPerSecond)
}

// Cut breaks every connection, drops what was on the way, and refuses new connections until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

func (l *Link) cut() {
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for c := range l.connections {
		c.abort()
	}
}

// Stall lets bytes wait on the way without a reset, as on a link that went dead: connections stay open, new ones are
// accepted, nothing arrives. After Heal what waited arrives, late.
func (l *Link) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.passing:
		l.passing = make(chan struct{})
	default: // stalled already
	}
}

// Heal ends a Cut and a Stall; delay and bandwidth stay as they are. It fails when the port of a cut link has been taken
// by someone else meanwhile, or when the link is closed.
func (l *Link) Heal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("heal link to %s: %w", l.upstream, net.ErrClosed)
	}
	l.pass()
	if l.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("heal link to %s: %w", l.upstream, err)
	}
	l.listen(listener)
	return nil
}

// Close cuts the link for good and waits until everything it started has ended. Closing twice does nothing.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.cut()
	l.mu.Unlock()
	l.running.Wait()
}

// pass opens the gate; the caller holds mu.
func (l *Link) pass() {
	select {
	case <-l.passing:
	default:
		close(l.passing)
	}
}

// gate returns a channel that is closed as soon as bytes may pass.
func (l *Link) gate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passing
}

// listen starts to accept; the caller holds mu, or nobody else knows the link yet.
func (l *Link) listen(listener net.Listener) {
	l.listener = listener
	l.running.Go(func() { l.accept(listener) })
}

func (l *Link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the one connection failed, the listener did not
		}
		l.accepted.Add(1)
		c := newConnection(client.(*net.TCPConn))
		if !l.add(c, listener) {
			c.abort()
			return
		}
		l.running.Go(func() {
			defer l.remove(c)
			c.run(l)
		})
	}
}

// add fails when the link was cut while the connection was being accepted.
func (l *Link) add(c *connection, from net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != from {
		return false
	}
	l.connections[c] = struct{}{}
	return true
}

func (l *Link) remove(c *connection) {
	c.abort()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, c)
}
