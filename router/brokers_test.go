package router_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
)

// broken is a broker whose subscriber cannot be made the first time.
type broken struct {
	mu     sync.Mutex
	closed int
	tries  int
}

type none struct{}

func (b *broken) broker() handlers.Broker {
	return handlers.NewBroker(func() (none, none, none) { return none{}, none{}, none{} },
		func(context.Context, none, handlers.Settings) (handlers.Connection[none, none], error) { return b, nil })
}

func (b *broken) Subscriber(handlers.Source, none) (message.Subscriber, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	return nil, fmt.Errorf("no subscriber, try %d", b.tries)
}

func (b *broken) Publisher(handlers.Destination, none) (message.Publisher, error) { return b, nil }
func (b *broken) Publish(string, ...*message.Message) error                       { return nil }

func (b *broken) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	return nil
}

func (b *broken) counts() (tries, closed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries, b.closed
}

func TestARouteThatCannotBeBuiltUndoesWhatItMadeAndTriesAgain(t *testing.T) {
	b := &broken{}
	w := newWorld(t, `
datacenters:
  a: {broken: {}}
routes:
  - {name: one, from: a/x, to: a/y}
`, router.WithBroker("broken", b.broker()))
	w.run()
	require.Eventually(t, func() bool { tries, closed := b.counts(); return tries >= 2 && closed >= 1 }, patience, time.Millisecond)
	require.Contains(t, w.status("one").Trouble(), "no subscriber")
	_ = w.end()
	tries, closed := b.counts()
	require.Equal(t, tries+1, closed, "each publisher is closed, and the connection at the end")
	require.Contains(t, w.log.String(), "the route ended by itself")
}

// plain is a broker of stock Watermill pub/subs, which know nothing of lanes.
type plain struct{ *gochannel.GoChannel }

func (p plain) broker() handlers.Broker {
	return handlers.NewBroker(func() (none, none, none) { return none{}, none{}, none{} },
		func(context.Context, none, handlers.Settings) (handlers.Connection[none, none], error) { return p, nil })
}

func (p plain) Subscriber(handlers.Source, none) (message.Subscriber, error)    { return p, nil }
func (p plain) Publisher(handlers.Destination, none) (message.Publisher, error) { return p, nil }

func TestAPlainWatermillPubSubIsABrokerAndIsShownAsItIs(t *testing.T) {
	p := plain{gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)}
	w := newWorld(t, `
datacenters:
  a: {plain: {}}
  b: {store: {}}
routes:
  - {name: one, from: a/x, to: b/y}
`, router.WithBroker("plain", p.broker()))
	for i := range 10 {
		require.NoError(t, p.Publish("x", message.NewMessage("", []byte(strconv.Itoa(i)))))
	}
	w.run()
	w.arrives("b", "y", 10)
	require.Eventually(t, func() bool { return w.status("one").Phase == router.Running }, patience, time.Millisecond)
	require.Empty(t, w.status("one").Trouble())
	w.store.Site("b").Down()
	require.NoError(t, p.Publish("x", message.NewMessage("", []byte("10"))))
	require.Eventually(t, func() bool { return strings.Contains(w.status("one").Trouble(), "destination b/y is down") }, patience, time.Millisecond)
	w.store.Site("b").Up()
	w.arrives("b", "y", 11)
	require.NoError(t, w.end())
}

// deaf is a broker to which nobody can subscribe.
type deaf struct{ plain }

func (deaf) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return nil, errors.New("no such topic")
}

func (d deaf) Subscriber(handlers.Source, none) (message.Subscriber, error) { return d, nil }

func (d deaf) broker() handlers.Broker {
	return handlers.NewBroker(func() (none, none, none) { return none{}, none{}, none{} },
		func(context.Context, none, handlers.Settings) (handlers.Connection[none, none], error) { return d, nil })
}

func TestARouteThatCannotSubscribeTriesAgainAndLeavesNothingBehind(t *testing.T) {
	d := deaf{plain{gochannel.NewGoChannel(gochannel.Config{}, nil)}}
	w := newWorld(t, `
datacenters:
  a: {deaf: {}}
  b: {store: {}}
routes:
  - {name: one, from: a/x, to: b/y}
`, router.WithBroker("deaf", d.broker()))
	w.run()
	require.Eventually(t, func() bool { return w.status("one").Meter.Restarts.Load() >= 2 }, patience, time.Millisecond)
	require.Contains(t, w.status("one").Trouble(), "no such topic")
	began := time.Now()
	require.NoError(t, w.end())
	require.Less(t, time.Since(began), 2*time.Second)
}

func TestAStopInTheMiddleOfTheStartIsClean(t *testing.T) {
	for range 50 {
		w := newWorld(t, twoRoutes)
		w.produce("a", "orders", 0, 10)
		w.run()
		require.NoError(t, w.end())
	}
}

func TestRefusedMessagesDoNotFloodTheLog(t *testing.T) {
	w := newWorld(t, twoRoutes+"defaults: {poison: off, retry: {max_attempts: 1}}")
	w.store.Site("b").OnPublish(func(string, *record.Record, int) memory.Verdict {
		return memory.Refuse(handlers.Permanent(errors.New("too ugly")))
	})
	w.produce("a", "orders", 0, 500)
	w.run()
	require.Eventually(t, func() bool { return w.status("one").Meter.Nacked.Load() > 1 }, patience, time.Millisecond)
	_ = w.end()
	require.Contains(t, w.log.String(), "too ugly")
	require.Less(t, strings.Count(w.log.String(), "too ugly"), 5)
}

func TestAMiddlewareThatDoesNotReturnDoesNotKeepTheProgram(t *testing.T) {
	gate := make(chan struct{})
	p := plain{gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)}
	h := hung{p, gate}
	w := newWorld(t, `
shutdown_timeout: 500ms
datacenters:
  a: {store: {}}
  b: {hung: {}}
routes:
  - {name: one, from: a/x, to: b/y}
`, router.WithBroker("hung", h.broker()))
	w.produce("a", "x", 0, 1)
	w.run()
	require.Eventually(t, func() bool { return w.status("one").InFlight() == 1 }, patience, time.Millisecond)
	began := time.Now()
	require.ErrorContains(t, w.end(), "left behind")
	require.Less(t, time.Since(began), 8*time.Second)
	close(gate)
}

// hung is a broker whose publisher does not return before its gate opens, not even when it is closed.
type hung struct {
	plain
	gate chan struct{}
}

func (h hung) Publish(string, ...*message.Message) error {
	<-h.gate
	return nil
}

func (h hung) Publisher(handlers.Destination, none) (message.Publisher, error) { return h, nil }

func (h hung) broker() handlers.Broker {
	return handlers.NewBroker(func() (none, none, none) { return none{}, none{}, none{} },
		func(context.Context, none, handlers.Settings) (handlers.Connection[none, none], error) { return h, nil })
}
