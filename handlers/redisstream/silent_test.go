package redisstream_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/integration/brokers"
)

// fake starts a server that knows PING and nothing else: what more it answers is the test's to register.
func fake(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Register("PING", func(c *server.Peer, _ string, _ []string) { c.WriteInline("PONG") }))
	return s
}

func TestAServerThatNeverAnswersIsGivenUpThoughMessagesKeepComing(t *testing.T) {
	s := fake(t)
	require.NoError(t, s.Register("XADD", func(*server.Peer, string, []string) {}))
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	w.destOwn.ConfirmTimeout, w.destOwn.WaitTimeout = config.Duration(time.Second), config.Duration(time.Millisecond)
	p := w.publisher()
	failed := make(chan error, 1)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for deadline, i := time.After(10*time.Second), 0; ; i++ {
		select {
		case <-ticker.C:
			go func() {
				if err := p.Publish(w.out, message.NewMessage(strconv.Itoa(i), []byte("payload"))); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}()
		case err := <-failed:
			require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
			require.ErrorContains(t, err, "confirm_timeout")
			require.GreaterOrEqual(t, time.Since(began), time.Second)
			return
		case <-deadline:
			require.FailNow(t, "nobody noticed")
		}
	}
}

func TestAMessageThatTakesLongToSendIsNoSilence(t *testing.T) {
	destination := brokers.Redis(t, "b")
	link := destination.Link(t)
	w := newWorld(t, destination.Address(), destination.Address())
	w.to = link.Address()
	w.destOwn.ConfirmTimeout, w.destOwn.WaitTimeout = config.Duration(2*time.Second), config.Duration(time.Millisecond)
	p := w.publisher()
	require.NoError(t, p.Publish(w.out, message.NewMessage("first", []byte("payload"))))
	link.Bandwidth(12 << 20)
	results := make(chan error, 2)
	began := time.Now()
	for _, size := range []int{1, 48 << 20} {
		go func() { results <- p.Publish(w.out, message.NewMessage("id", make([]byte, size))) }()
	}
	for range cap(results) {
		select {
		case err := <-results:
			require.NoError(t, err)
		case <-time.After(patience):
			require.FailNow(t, "Publish does not return")
		}
	}
	require.Greater(t, time.Since(began), time.Duration(w.destOwn.ConfirmTimeout), "the link was not slow")
	require.Zero(t, w.destination.Meter.Reconnects.Load())
}
