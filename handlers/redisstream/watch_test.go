package redisstream_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
)

// watched makes a publisher that looks after an idle server every 20 ms.
func (w *world) watched() message.Publisher {
	w.Helper()
	conn := open(w, w.to, "publisher")
	redisstream.SetPingInterval(conn.Unwrap(), 20*time.Millisecond)
	p, err := conn.Publisher(w.destination, w.destOwn)
	require.NoError(w, err)
	w.Cleanup(func() {
		_ = p.Close()
		_ = conn.Close()
	})
	w.destination.Health.Up()
	return p
}

// countPings counts what is asked of a server from now on.
func countPings(s *server.Server) *atomic.Int64 {
	var pings atomic.Int64
	s.SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == "PING" {
			pings.Add(1)
		}
		return false
	})
	return &pings
}

func TestAnIdleRouteIsDownWhenItsServerDiedAndUpWhenItIsBack(t *testing.T) {
	s := brokers.RedisOwn(t)
	w := newWorld(t, s.Address(), s.Address())
	p := w.watched()
	require.NoError(t, p.Publish(w.out, message.NewMessage("id", []byte("payload"))))
	s.Kill(t)
	w.eventually(func() bool { up, _, _ := w.destination.Health.State(); return !up }, "nobody noticed")
	_, _, err := w.destination.Health.State()
	require.ErrorContains(t, err, s.Address())
	s.Start(t)
	w.eventually(func() bool { up, _, _ := w.destination.Health.State(); return up }, "nobody noticed that it is back")
}

func TestTheReasonThatIsToldIsTheLatest(t *testing.T) {
	s := fake(t)
	var reason atomic.Value
	reason.Store("ERR the first")
	s.SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command == "PING" {
			peer.WriteError(reason.Load().(string))
		}
		return command == "PING"
	})
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	w.watched()
	told := func(text string) {
		t.Helper()
		w.eventually(func() bool {
			up, _, err := w.destination.Health.State()
			return !up && strings.Contains(err.Error(), text)
		}, text+" is not told")
	}
	told("the first")
	reason.Store("ERR the second")
	told("the second")
}

func TestAPingDoesNotHideThatAMessageIsHeld(t *testing.T) {
	s := fake(t)
	pings := countPings(s)
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	w.watched()
	w.destination.Health.Down(handlers.Full(errors.New("out of memory")))
	before := pings.Load()
	w.eventually(func() bool { return pings.Load() >= before+3 }, "no pings")
	up, _, err := w.destination.Health.State()
	require.False(t, up)
	require.ErrorContains(t, err, "out of memory")
}

func TestABusyServerIsNotPinged(t *testing.T) {
	s := fake(t)
	asked := make(chan struct{}, 1)
	require.NoError(t, s.Register("XADD", func(*server.Peer, string, []string) { asked <- struct{}{} }))
	pings := countPings(s)
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	w.destOwn.ConfirmTimeout, w.destOwn.WaitTimeout = config.Duration(500*time.Millisecond), config.Duration(time.Millisecond)
	p := w.watched()
	result := make(chan error, 1)
	go func() { result <- p.Publish(w.out, message.NewMessage("id", []byte("payload"))) }()
	<-asked
	before := pings.Load()
	select {
	case err := <-result:
		require.Error(t, err)
	case <-time.After(patience):
		require.FailNow(t, "Publish does not return")
	}
	require.LessOrEqual(t, pings.Load(), before+10, "of 25")
}
