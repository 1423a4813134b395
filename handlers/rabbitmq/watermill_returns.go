package rabbitmq

import (
	"encoding/binary"
	"net"
	"sync"
)

// returns reads along with the AMQP client and notes which messages RabbitMQ returns, since no queue took them. It confirms them nevertheless, and the stock
// publisher, which does not ask for returns, would take that for a delivery.
type returns struct {
	net.Conn

	frame []byte // The beginning of the frame that is being read, as much as counts. The reader's alone.
	rest  int    // How many bytes of it are still to be skipped.

	mu   sync.Mutex
	n    int            // How many came.
	last map[string]int // The number of the last one of each routing key.
}

const (
	frameHead   = 7           // Type, channel, size.
	frameMethod = 1           // The type of a frame that tells what is done.
	basicReturn = 60<<16 | 50 // What is done.
	returnHead  = frameHead + 4 + 2
	returnMost  = returnHead + 3*(1+maxShort)
)

func newReturns(conn net.Conn) *returns { return &returns{Conn: conn, last: map[string]int{}} }

// now gives a number that is passed by each return that comes later.
func (r *returns) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// since reports whether a message with that routing key was returned since now gave n.
func (r *returns) since(n int, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[key] > n
}

// Read reads. What it has seen is noted before the client gets it, so before the confirm that comes after it.
func (r *returns) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.scan(b[:n])
	return n, err
}

func (r *returns) scan(b []byte) {
	for len(b) > 0 {
		if r.rest > 0 {
			n := min(r.rest, len(b))
			r.rest -= n
			b = b[n:]
			continue
		}
		want := r.wanted()
		n := min(want-len(r.frame), len(b))
		r.frame = append(r.frame, b[:n]...)
		b = b[n:]
		if len(r.frame) == r.wanted() {
			r.look()
		}
	}
}

// wanted is how much of the frame must be there to go on.
func (r *returns) wanted() int {
	if len(r.frame) < frameHead {
		return frameHead
	}
	size := r.size()
	switch {
	case r.frame[0] != frameMethod || size < 4:
		return frameHead
	case len(r.frame) < frameHead+4:
		return frameHead + 4
	case binary.BigEndian.Uint32(r.frame[frameHead:]) != basicReturn:
		return frameHead + 4
	}
	return min(frameHead+size, returnMost)
}

func (r *returns) size() int { return int(binary.BigEndian.Uint32(r.frame[3:])) }

// look takes what counts out of the frame, and skips the rest with the byte that ends it.
func (r *returns) look() {
	if len(r.frame) > frameHead+4 {
		if key, ok := returnedKey(r.frame[min(returnHead, len(r.frame)):]); ok {
			r.mu.Lock()
			r.n++
			r.last[key] = r.n
			r.mu.Unlock()
		}
	}
	r.rest = frameHead + r.size() + 1 - len(r.frame)
	r.frame = r.frame[:0]
}

// returnedKey finds the routing key behind the text of the reason and the name of the exchange.
func returnedKey(b []byte) (key string, ok bool) {
	for i := range 3 {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return "", false
		}
		if i == 2 {
			return string(b[1 : 1+int(b[0])]), true
		}
		b = b[1+int(b[0]):]
	}
	return "", false
}
