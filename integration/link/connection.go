package link

import (
	"net"
	"sync"
	"time"
)

// connection is one client's connection and its counterpart to the server.
type connection struct {
	client *net.TCPConn
	done   chan struct{} // closed by abort

	mu      sync.Mutex
	server  *net.TCPConn // nil until dialled
	aborted bool
}

func newConnection(client *net.TCPConn) *connection {
	return &connection{client: client, done: make(chan struct{})}
}

// run carries bytes both ways until both ends have finished or the connection is aborted.
func (c *connection) run(l *Link) {
	conn, err := net.DialTimeout("tcp", l.upstream, dialTimeout)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	if !c.attach(server) {
		_ = server.Close()
		return
	}
	up := newPipe(l, c, c.client, server, &l.up)
	down := newPipe(l, c, server, c.client, &l.down)
	var ends sync.WaitGroup
	for _, end := range []func(){up.read, up.write, down.read, down.write} {
		ends.Go(end)
	}
	ends.Wait()
}

func (c *connection) attach(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted {
		return false
	}
	c.server = server
	return true
}

// abort breaks both sides at once; the client sees a reset unless its connection had ended already.
func (c *connection) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted {
		return
	}
	c.aborted = true
	close(c.done)
	_ = c.client.SetLinger(0)
	_ = c.client.Close()
	if c.server != nil {
		// No reset here: what had arrived at the server before the break stays arrived.
		_ = c.server.Close()
	}
}

// sleepUntil waits for the time and reports whether it came before the connection was aborted.
func (c *connection) sleepUntil(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// pass waits while the link is stalled and reports whether the connection is still whole.
func (c *connection) pass(l *Link) bool {
	select {
	case <-l.gate():
		return true
	case <-c.done:
		return false
	}
}
