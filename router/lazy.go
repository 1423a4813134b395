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

	making sync.Mutex // Held while it is made, which may take its time: Close does not wait for that.
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
	l.making.Lock()
	defer l.making.Unlock()
	if made, closed := l.state(); made != nil || closed {
		if closed {
			return nil, errPublisherClosed
		}
		return made, nil
	}
	made, err := l.make()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	closed := l.closed
	l.made = made
	l.mu.Unlock()
	if closed {
		return nil, errors.Join(errPublisherClosed, made.Close())
	}
	return made, nil
}

func (l *lazyPublisher) state() (made message.Publisher, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made, l.closed
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
