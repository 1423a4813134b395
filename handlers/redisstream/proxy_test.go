package redisstream_test

import (
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
)

// proxy is a server that answers every command with one error as long as it has one.
type proxy struct {
	*server.Server
	outage    atomic.Bool
	good, bad atomic.Int64 // XADDs while there is no outage.
}

const (
	outage = "ERR Connection refused"
	guilty = "ERR the message is not liked"
)

// newProxy also answers messages with the payload "bad" with an error of the same code, always.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{Server: fake(t)}
	answer := func(c *server.Peer, _ string, args []string) {
		switch {
		case p.outage.Load():
			c.WriteError(outage)
		case args[len(args)-1] == "bad":
			p.bad.Add(1)
			c.WriteError(guilty)
		case len(args) > 1:
			p.good.Add(1)
			c.WriteBulk("1-1")
		default:
			c.WriteInt(0)
		}
	}
	require.NoError(t, p.Register("XADD", answer))
	require.NoError(t, p.Register("XLEN", answer))
	return p
}

// again publishes one message until it is confirmed or refused, as a relay does.
func (w *world) again(p message.Publisher, payload string, failed func(times int)) (err error) {
	w.Helper()
	w.within("Publish", func() {
		for times := 1; ; times++ {
			err = p.Publish(w.out, message.NewMessage("id of "+payload, []byte(payload)))
			if handlers.ClassOf(err) != handlers.ClassUnavailable {
				return
			}
			failed(times)
		}
	})
	return err
}

func nothing(int) {}

func TestAnErrorOfAProxyWhoseServerIsDownIsNoRefusal(t *testing.T) {
	s := newProxy(t)
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	p := w.publisher()
	s.outage.Store(true)
	require.NoError(t, w.again(p, "good", func(times int) {
		if times == 20 {
			s.outage.Store(false)
		}
	}))
	require.EqualValues(t, 1, s.good.Load())
}

func TestAMessageIsRefusedWhenItFailsAgainAsTheFirstOnAFreshConnection(t *testing.T) {
	s := newProxy(t)
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	p := w.publisher()
	require.NoError(t, w.again(p, "good", nothing))
	for round := range int64(2) {
		err := w.again(p, "bad", nothing)
		require.Equal(t, handlers.ClassRefused, handlers.ClassOf(err), "%v", err)
		require.ErrorContains(t, err, guilty)
		require.Equal(t, 2*(round+1), s.bad.Load(), "it was not judged at the second look")
	}
	require.NoError(t, w.again(p, "good", nothing))
	require.EqualValues(t, 2, s.good.Load())
}

func TestAMessageIsNotJudgedByTheFailureOfAnother(t *testing.T) {
	s := newProxy(t)
	w := newWorld(t, s.Addr().String(), s.Addr().String())
	p := w.publisher()
	s.outage.Store(true)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(p.Publish(w.out, message.NewMessage("other", []byte("good")))))
	s.outage.Store(false)
	err := w.again(p, "bad", nothing)
	require.Equal(t, handlers.ClassRefused, handlers.ClassOf(err), "%v", err)
	require.EqualValues(t, 2, s.bad.Load())
}
