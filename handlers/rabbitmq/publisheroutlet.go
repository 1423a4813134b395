package rabbitmq

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

const (
	// gatherMost is how much waits for the network before a write does.
	gatherMost = 1 << 20
	// piece is how much is written at once, and counted.
	piece = 64 << 10
	// lastWrite is how long the last bytes before a close may take.
	lastWrite = 200 * time.Millisecond
)

// outlet is the network under a publisher's AMQP client, which writes each message for itself, and under a lock that its heartbeats need too. An outlet
// takes what is written at once, as long as little waits, and a goroutine of its own writes together what has gathered meanwhile.
// It gives the connection up when nothing was read for a while, whatever deadlines the client sets: those are not kept up while it is held up in a write.
type outlet struct {
	net.Conn // Writes to it are the goroutine's alone.

	silence time.Duration

	mu     sync.Mutex
	work   sync.Cond
	room   sync.Cond
	waits  []byte
	pieces int // Written so far.
	seen   int // Of these, when it was last asked.
	closed bool
	err    error
}

func newOutlet(n net.Conn, silence time.Duration) *outlet {
	o := &outlet{Conn: n, silence: silence}
	o.work.L, o.room.L = &o.mu, &o.mu
	go o.run()
	return o
}

// run writes until the outlet is closed.
func (o *outlet) run() {
	var batch []byte
	for {
		var ok bool
		if batch, ok = o.next(batch); !ok {
			_ = o.Conn.Close()
			return
		}
		if err := o.write(batch); err != nil {
			o.fail(err)
			return
		}
	}
}

func (o *outlet) write(batch []byte) error {
	for len(batch) > 0 {
		n, err := o.Conn.Write(batch[:min(len(batch), piece)])
		if err != nil {
			return err
		}
		batch = batch[n:]
		o.mu.Lock()
		o.pieces++
		o.mu.Unlock()
	}
	return nil
}

// moved reports whether anything was written since it was last asked.
func (o *outlet) moved() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.seen
	o.seen = o.pieces
	return o.pieces != was
}

// next takes what has gathered, and leaves spare in its place. It reports false when nothing more will come.
func (o *outlet) next(spare []byte) (batch []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waits) == 0 && !o.closed && o.err == nil {
		o.work.Wait()
	}
	batch, o.waits = o.waits, spare[:0]
	o.room.Broadcast()
	return batch, len(batch) > 0 && o.err == nil
}

// Write takes b, and waits only when much has gathered.
func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waits) >= gatherMost && !o.closed && o.err == nil {
		o.room.Wait()
	}
	switch {
	case o.err != nil:
		return 0, o.err
	case o.closed:
		return 0, net.ErrClosed
	}
	o.waits = append(o.waits, b...)
	o.work.Signal()
	return len(b), nil
}

// Read reads, and fails when nothing comes for too long. A failed read ends the writes too.
func (o *outlet) Read(b []byte) (int, error) {
	err := o.Conn.SetReadDeadline(time.Now().Add(o.silence))
	if err != nil {
		o.fail(err)
		return 0, err
	}
	n, err := o.Conn.Read(b)
	if err != nil {
		o.fail(err)
	}
	return n, err
}

// SetReadDeadline does nothing: see outlet.
func (*outlet) SetReadDeadline(time.Time) error { return nil }

// SetDeadline does nothing either.
func (*outlet) SetDeadline(time.Time) error { return nil }

// Close writes what has gathered, if that is quick, and closes the connection. It does not wait for that.
func (o *outlet) Close() error {
	o.mu.Lock()
	o.closed = true
	o.work.Signal()
	o.room.Broadcast()
	o.mu.Unlock()
	return o.Conn.SetWriteDeadline(time.Now().Add(lastWrite))
}

// fail closes the connection at once and lets nothing wait for it. The first cause is kept.
func (o *outlet) fail(cause error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = cause
	}
	o.work.Signal()
	o.room.Broadcast()
	o.mu.Unlock()
	if encrypted, ok := o.Conn.(*tls.Conn); ok {
		_ = encrypted.NetConn().Close() // Its own Close says good-bye first, for which the peer may have no room.
		return
	}
	_ = o.Conn.Close()
}

// failure tells why the outlet failed; nil when it did not.
func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
