package kafka_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mqferry/mqferry/config"
)

// world is a Kafka in this process that can be cut off from its clients.
type world struct {
	*kfake.Cluster
	mu          sync.Mutex
	cut         bool
	connections map[net.Conn]struct{}
	attempts    atomic.Int64 // To connect.
}

func newWorld(t *testing.T, options ...kfake.Opt) *world {
	t.Helper()
	w := &world{connections: map[net.Conn]struct{}{}}
	listen := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return &listener{l, w}, err
	}
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(listen)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w.Cluster = c
	return w
}

func (w *world) address() string { return w.ListenAddrs()[0] }

// outage breaks all connections, and those to come at once, until the returned function is called.
func (w *world) outage(*testing.T) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.connections {
		_ = c.Close()
	}
	clear(w.connections)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cut = false
	}
}

type listener struct {
	net.Listener
	world *world
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.world.admit(c) {
			return c, nil
		}
		_ = c.Close()
	}
}

func (w *world) admit(c net.Conn) bool {
	w.attempts.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut {
		w.connections[c] = struct{}{}
	}
	return !w.cut
}

func rawConfig() config.Raw { return config.Raw{} }
