package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
)

// hooks tells the route what its client's connections do.
type hooks struct {
	config Config
	health *handlers.Health
	meter  *handlers.Meter
	broken atomic.Bool

	mu          sync.Mutex
	connections map[net.Conn]struct{}
	failing     map[string]error // Of the brokers whose last connection failed.
	last        string           // The broker of the last attempt.
}

// OnBrokerConnect is called by the client after each attempt.
func (h *hooks) OnBrokerConnect(b kgo.BrokerMetadata, _ time.Duration, c net.Conn, err error) {
	address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	if err != nil {
		h.broken.Store(true)
		err = h.failure(address, err)
		h.health.Down(err)
		return
	}
	h.mu.Lock()
	if h.connections == nil {
		h.connections = map[net.Conn]struct{}{}
	}
	h.connections[c] = struct{}{}
	delete(h.failing, address)
	h.last = address
	h.mu.Unlock()
	if h.broken.Swap(false) {
		h.meter.Reconnects.Add(1)
	}
	h.health.Up()
}

// failure notes why a broker cannot be connected to.
func (h *hooks) failure(address string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return err // Our own doing.
	}
	guess := h.config.guess(err)
	if err = h.config.explained(address, err); guess != "" {
		err = fmt.Errorf("%w: %s", err, guess)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing == nil {
		h.failing = map[string]error{}
	}
	h.failing[address], h.last = err, address
	return err
}

// why gives the errors of all brokers that cannot be connected to, instead of err, which may be only what follows from them.
func (h *hooks) why(err error) error {
	err = h.explain(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.failing) == 0 {
		return err
	}
	text := make([]string, 0, len(h.failing))
	for _, address := range slices.Sorted(maps.Keys(h.failing)) {
		text = append(text, h.failing[address].Error())
	}
	return errors.New(strings.Join(text, "; "))
}

// explain says what can be done about an error of what was asked or sent, if it comes from connecting.
func (h *hooks) explain(err error) error {
	h.mu.Lock()
	address := h.last
	h.mu.Unlock()
	if err == nil || h.config.advice(err) == "" {
		return err
	}
	return h.config.explained(address, err)
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
func (h *hooks) OnGroupManageError(err error) { h.health.Down(h.explain(err)) }
