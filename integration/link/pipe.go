package link

import (
	"net"
	"sync"
	"time"
)

const (
	bufferSize = 64 << 10
	// maxOnTheWay bounds the memory of one direction of one connection; beyond it the sender is held back.
	maxOnTheWay = 64 << 20
)

// chunk is what one read brought, and when it is due at the other end.
type chunk struct {
	data   []byte
	buffer *[bufferSize]byte // goes back to the pool, nil when data is a copy
	due    time.Time
	end    bool // the sender has finished
}

// pipe is one direction of a connection: read puts chunks in, write takes them out when they are due.
type pipe struct {
	link     *Link
	conn     *connection
	from, to *net.TCPConn
	pace     *limiter

	mu      sync.Mutex
	chunks  []chunk
	size    int           // memory held by chunks
	filled  chan struct{} // a token: there may be something to take
	drained chan struct{} // a token: there may be room
}

func newPipe(l *Link, c *connection, from, to *net.TCPConn, pace *limiter) *pipe {
	return &pipe{
		link: l, conn: c, from: from, to: to, pace: pace,
		filled:  make(chan struct{}, 1),
		drained: make(chan struct{}, 1),
	}
}

// read takes bytes from the sender. The bandwidth is applied here, at the entrance, so that what is on the way is at
// most bandwidth times delay.
func (p *pipe) read() {
	for {
		buffer := p.link.buffers.Get().(*[bufferSize]byte)
		n, err := p.from.Read(buffer[:p.pace.chunk()])
		if n > 0 && !p.enter(buffer, n) {
			return
		}
		if err != nil {
			p.put(chunk{end: true, due: time.Now().Add(p.oneWay())})
			return
		}
	}
}

func (p *pipe) enter(buffer *[bufferSize]byte, n int) bool {
	if !p.conn.sleepUntil(p.pace.reserve(n)) || !p.conn.pass(p.link) {
		return false
	}
	c := chunk{data: buffer[:n], buffer: buffer, due: time.Now().Add(p.oneWay())}
	if n < bufferSize/2 {
		// A whole buffer for a few bytes would make the bound on the memory a lie.
		c.data, c.buffer = append([]byte(nil), c.data...), nil
		p.link.buffers.Put(buffer)
	}
	return p.put(c)
}

func (p *pipe) oneWay() time.Duration { return time.Duration(p.link.delay.Load()) }

// write hands bytes to the receiver when they are due. A receiver that is gone breaks the whole connection.
func (p *pipe) write() {
	for {
		c, ok := p.take()
		if !ok || !p.conn.sleepUntil(c.due) || !p.conn.pass(p.link) {
			return
		}
		if c.end {
			_ = p.to.CloseWrite()
			return
		}
		_, err := p.to.Write(c.data)
		if c.buffer != nil {
			p.link.buffers.Put(c.buffer)
		}
		if err != nil {
			p.conn.abort()
			return
		}
	}
}

// put waits for room and reports whether the connection is still whole.
func (p *pipe) put(c chunk) bool {
	for {
		p.mu.Lock()
		fits := p.size+cap(c.data) <= maxOnTheWay
		if fits {
			p.chunks = append(p.chunks, c)
			p.size += cap(c.data)
		}
		p.mu.Unlock()
		if fits {
			signal(p.filled)
			return true
		}
		if !p.wait(p.drained) {
			return false
		}
	}
}

// take waits for the next chunk and reports whether there is one.
func (p *pipe) take() (chunk, bool) {
	for {
		p.mu.Lock()
		if len(p.chunks) > 0 {
			c := p.chunks[0]
			p.chunks[0] = chunk{}
			p.chunks = p.chunks[1:]
			p.size -= cap(c.data)
			p.mu.Unlock()
			signal(p.drained)
			return c, true
		}
		p.mu.Unlock()
		if !p.wait(p.filled) {
			return chunk{}, false
		}
	}
}

func (p *pipe) wait(token <-chan struct{}) bool {
	select {
	case <-token:
		return true
	case <-p.conn.done:
		return false
	}
}

func signal(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default: // one is waiting already
	}
}
