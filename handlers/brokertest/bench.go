package brokertest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// bench is one test's place at the broker: a topic of its own, and everything that it has opened there.
type bench struct {
	*testing.T
	suite  Suite
	topic  string
	group  string
	meter  *handlers.Meter // Of the source; made anew with each subscriber.
	opened []func()
}

func newBench(t *testing.T, s Suite) *bench {
	t.Helper()
	b := &bench{T: t, suite: s, topic: fmt.Sprintf("brokertest-%08x", rand.Uint32()), meter: &handlers.Meter{}}
	if s.Topic != nil {
		b.topic = s.Topic(t)
	}
	b.group = b.topic + "-group"
	t.Cleanup(b.closeAll)
	return b
}

// closeAll closes what the test has opened, the last first.
func (b *bench) closeAll() {
	opened := b.opened
	b.opened = nil
	for i := range opened {
		b.within("close", opened[len(opened)-1-i])
	}
}

// within fails the test when do takes longer than the suite's patience.
func (b *bench) within(what string, do func()) {
	b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(b.suite.Patience):
		require.FailNow(b, what+" does not return")
	}
}

// eventually fails the test when reached does not become true within the suite's patience.
func (b *bench) eventually(reached func() bool, what string) {
	b.Helper()
	require.Eventually(b, reached, b.suite.Patience, 5*time.Millisecond, what)
}

func (b *bench) conn() handlers.Conn {
	b.Helper()
	c := b.suite.Open(b.T)
	b.opened = append(b.opened, func() { _ = c.Close() })
	return c
}

// subscriber makes a subscriber on a connection of its own. At the end of the test it is given up.
func (b *bench) subscriber(window int) message.Subscriber {
	b.Helper()
	b.meter = &handlers.Meter{}
	s, err := b.conn().Subscriber(handlers.Source{
		Route: "brokertest", DataCenter: "here", Topic: b.topic, Group: b.group,
		Window: window, Bytes: 64 << 20, Backoff: backoff(),
		Logger: slog.New(slog.DiscardHandler), Meter: b.meter, Health: handlers.NewHealth(nil),
	}, b.suite.Source)
	require.NoError(b, err)
	b.opened = append(b.opened, func() {
		abort(s)
		_ = s.Close()
	})
	return s
}

func (b *bench) subscribe(s message.Subscriber) <-chan *message.Message {
	b.Helper()
	messages, err := s.Subscribe(context.Background(), b.topic)
	require.NoError(b, err)
	return messages
}

func (b *bench) destination() handlers.Destination {
	return handlers.Destination{
		Route: "brokertest", DataCenter: "here", Topic: b.topic,
		Logger: slog.New(slog.DiscardHandler), Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
}

// publisher makes a publisher on a connection of its own.
func (b *bench) publisher() message.Publisher {
	b.Helper()
	p, err := b.conn().Publisher(b.destination(), b.suite.Destination)
	require.NoError(b, err)
	b.opened = append(b.opened, func() { _ = p.Close() })
	return p
}

// close closes s or p, which must work and come to an end.
func (b *bench) close(c interface{ Close() error }) {
	b.Helper()
	b.within("close", func() { require.NoError(b, c.Close()) })
}

// receive gives the next n messages.
func (b *bench) receive(messages <-chan *message.Message, n int) []*message.Message {
	b.Helper()
	deadline := time.After(b.suite.Patience)
	received := make([]*message.Message, 0, n)
	for len(received) < n {
		select {
		case msg, ok := <-messages:
			require.True(b, ok, "the subscription ended after %d of %d messages", len(received), n)
			received = append(received, msg)
		case <-deadline:
			require.FailNow(b, "messages are missing", "%d of %d came", len(received), n)
		}
	}
	return received
}

// silent fails the test when a message comes within a while.
func (b *bench) silent(messages <-chan *message.Message) {
	b.Helper()
	select {
	case msg, ok := <-messages:
		if ok {
			require.FailNow(b, "a message came that should not", "%s", msg.Payload)
		}
	case <-time.After(300 * time.Millisecond):
	}
}

func (b *bench) noGoroutines(before goleak.Option) {
	b.Helper()
	options := append([]goleak.Option{before}, b.suite.Background...)
	var err error
	for end := time.Now().Add(min(b.suite.Patience, 10*time.Second)); time.Now().Before(end); {
		if err = goleak.Find(options...); err == nil {
			return
		}
	}
	require.NoError(b, err)
}

func abort(s message.Subscriber) {
	if a, ok := s.(interface{ Abort() }); ok {
		a.Abort()
	}
}

func backoff() lane.Backoff {
	return lane.Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond}
}

// numbered makes records that carry the numbers from first up to, not including, end.
func numbered(first, end int) []*record.Record {
	records := make([]*record.Record, 0, end-first)
	for i := first; i < end; i++ {
		records = append(records, &record.Record{Value: []byte(strconv.Itoa(i))})
	}
	return records
}

// number reads what numbered wrote.
func (b *bench) number(msg *message.Message) int {
	b.Helper()
	n, err := strconv.Atoi(string(msg.Payload))
	require.NoError(b, err)
	return n
}

func (b *bench) numbers(messages []*message.Message) []int {
	b.Helper()
	all := make([]int, len(messages))
	for i, msg := range messages {
		all[i] = b.number(msg)
	}
	return all
}

// span lists the numbers from first up to, not including, end.
func span(first, end int) []int {
	all := make([]int, 0, max(end-first, 0))
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

func ack(messages ...*message.Message) {
	for _, msg := range messages {
		msg.Ack()
	}
}
