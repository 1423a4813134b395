package brokertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// PubSub lets Watermill's universal suite, which thinks of one subscriber with many topics, use a broker. A broker's own test says how to connect,
// and what is true of it:
//
//	brokertest.PubSub{Open: open, Source: source, Destination: destination, Window: 1}.Run(t, tests.Features{
//		ConsumerGroups: true, GuaranteedOrder: true, Persistent: true,
//	})
//
// The suite's no-ack test demands one message at a time, so order is to be declared at window 1 only. Two things that the suite expects are done here: each
// subscription has a subscriber of its own, in a group of its own for each topic; and a message's context ends with its ack, while ours ends with its lane.
type PubSub struct {
	// Open connects to the broker, to the same one each time, each time under another instance name. What it returns is closed with the test.
	Open func(t *testing.T) handlers.Conn
	// Source and Destination are the options of every route's ends.
	Source, Destination handlers.Options
	// Window is how many messages of one lane may be in flight; zero means 8192.
	Window int
	// Create makes a topic, unless it is there; nil means that there is no need.
	Create func(topic string) error
}

// Run runs Watermill's suite. With -short, or with features.ForceShort, it sends less. The names of its topics are made up anew by each run.
func (p PubSub) Run(t *testing.T, features tests.Features) {
	tests.TestPubSub(t, features, p.Make, p.MakeGroup)
}

// Make connects, and makes a publisher and a subscriber for any topics. It is a tests.PubSubConstructor, for single tests of the suite.
func (p PubSub) Make(t *testing.T) (message.Publisher, message.Subscriber) {
	return p.MakeGroup(t, "suite")
}

// MakeGroup is Make with a consumer group; it is a tests.ConsumerGroupPubSubConstructor.
func (p PubSub) MakeGroup(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	if p.Window == 0 {
		p.Window = 8192
	}
	conn := p.Open(t)
	publisher, err := conn.Publisher(handlers.Destination{Route: "suite", DataCenter: "here"}, p.Destination)
	require.NoError(t, err)
	s := &subscriptions{pubSub: p, conn: conn, group: group, closing: make(chan struct{})}
	t.Cleanup(func() {
		_ = publisher.Close()
		s.abort()
		_ = s.Close()
		_ = conn.Close()
	})
	return publisher, s
}

// subscriptions is a subscriber that makes another one for each Subscribe.
type subscriptions struct {
	pubSub  PubSub
	conn    handlers.Conn
	group   string
	closing chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	inner  []message.Subscriber
}

var errClosed = errors.New("the subscriber is closed")

func (s *subscriptions) SubscribeInitialize(topic string) error {
	if s.pubSub.Create == nil {
		return nil
	}
	return s.pubSub.Create(topic)
}

func (s *subscriptions) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	inner, err := s.conn.Subscriber(handlers.Source{
		Route: "suite", DataCenter: "here", Topic: topic, Group: s.group + "-" + topic, Window: s.pubSub.Window, Bytes: 64 << 20,
		Backoff: lane.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond}, // The suite nacks hundreds of times.
	}, s.pubSub.Source)
	if err != nil {
		return nil, err
	}
	messages, err := inner.Subscribe(ctx, topic)
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	s.inner = append(s.inner, inner)
	out := make(chan *message.Message)
	s.running.Go(func() {
		defer close(out)
		for msg := range messages {
			s.limit(msg)
			select {
			case out <- msg:
			case <-s.closing:
			}
		}
	})
	return out, nil
}

// limit ends the message's context once it is acked or nacked, or when the subscriber is closed.
func (s *subscriptions) limit(msg *message.Message) {
	ctx, cancel := context.WithCancel(msg.Context())
	msg.SetContext(ctx)
	s.running.Go(func() {
		defer cancel()
		select {
		case <-msg.Acked():
		case <-msg.Nacked():
		case <-s.closing:
		}
	})
}

func (s *subscriptions) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	inner := s.inner
	s.mu.Unlock()
	errs := make([]error, len(inner))
	var ending sync.WaitGroup
	for i := range inner {
		ending.Go(func() { errs[i] = inner[i].Close() })
	}
	ending.Wait()
	s.running.Wait()
	return errors.Join(errs...)
}

func (s *subscriptions) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, inner := range s.inner {
		abort(inner)
	}
}
