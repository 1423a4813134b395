package kafka

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
)

// hooks tells the route what its client's connections do.
type hooks struct {
	health *handlers.Health
	meter  *handlers.Meter
	broken atomic.Bool

	mu          sync.Mutex
	connections map[net.Conn]struct{}
}

// OnBrokerConnect is called by the client after each attempt.
func (h *hooks) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, c net.Conn, err error) {
	if err != nil {
		h.broken.Store(true)
		h.health.Down(err)
		return
	}
	h.mu.Lock()
	if h.connections == nil {
		h.connections = map[net.Conn]struct{}{}
	}
	h.connections[c] = struct{}{}
	h.mu.Unlock()
	if h.broken.Swap(false) {
		h.meter.Reconnects.Add(1)
	}
	h.health.Up()
}

// OnBrokerDisconnect is called by the client when a connection ended.
func (h *hooks) OnBrokerDisconnect(_ kgo.BrokerMetadata, c net.Conn) {
	h.broken.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.connections, c)
}

// cut breaks the client's connections: it makes others and repeats what was not answered.
func (h *hooks) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.connections {
		_ = c.Close()
	}
}

// OnGroupManageError is called by the client when it fell out of its group.
func (h *hooks) OnGroupManageError(err error) { h.health.Down(err) }
