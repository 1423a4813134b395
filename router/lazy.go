package router

import (
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
)

// lazyPublisher makes its publisher when there is something to publish: most routes never park anything, and a publisher holds connections.
type lazyPublisher struct {
	make func() (message.Publisher, error)

	mu     sync.Mutex
	made   message.Publisher
	closed bool
}

var errPublisherClosed = errors.New("the publisher is closed")

// Publish publishes, with the publisher that was made before, or a new one.
func (l *lazyPublisher) Publish(topic string, messages ...*message.Message) error {
	p, err := l.publisher()
	if err != nil {
		return handlers.Unavailable(err)
	}
	return p.Publish(topic, messages...)
}

func (l *lazyPublisher) publisher() (message.Publisher, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errPublisherClosed
	}
	if l.made != nil {
		return l.made, nil
	}
	var err error
	l.made, err = l.make()
	return l.made, err
}

// Close closes the publisher, if there is one. It may be called twice.
func (l *lazyPublisher) Close() error {
	l.mu.Lock()
	l.closed = true
	made := l.made
	l.mu.Unlock()
	if made == nil {
		return nil
	}
	return made.Close()
}
