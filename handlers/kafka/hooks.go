package kafka

import (
	"net"
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
}

// OnBrokerConnect is called by the client after each attempt.
func (h *hooks) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		h.broken.Store(true)
		h.health.Down(err)
		return
	}
	if h.broken.Swap(false) {
		h.meter.Reconnects.Add(1)
	}
	h.health.Up()
}

// OnBrokerDisconnect is called by the client when a connection ended.
func (h *hooks) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { h.broken.Store(true) }

// OnGroupManageError is called by the client when it fell out of its group.
func (h *hooks) OnGroupManageError(err error) { h.health.Down(err) }
