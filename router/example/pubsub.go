package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
)

// What the router expects of a plain Watermill pub/sub:
//   - Publish returns nil only when the message is safe at the broker, since the source then forgets it.
//   - The subscriber forgets a message only after its Ack, and delivers it again after a Nack: after a pause, and before its successors.
//   - It hands out one message at a time, since a Watermill router handles at once whatever it is given, in no order.
//   - The context of a message ends with that of Subscribe: a route that stops then gives up what it holds for a destination that is down.
//   - Close ends everything, may be called twice, and does not wait for ever for an ack.
//
// What it loses against the pipelined ones that are built in: it begins a message when the one before is acked, so it is slow over a long link; it carries
// id, metadata and payload, but no key, no time, no repeated or typed headers; and a route can not show how its lanes are. What a pipelined broker is made
// of is in package handlers: NewSubscriber, Turn and record.Record; handlers/memory is the smallest one.

// spoolPublisher is a message.Publisher.
type spoolPublisher struct {
	root string

	mu     sync.Mutex // Held while a file is written: a reader must not see the second before the first.
	closed bool
	last   map[string]int64 // The number of the newest file, by topic.
}

var errClosed = errors.New("the spool is closed")

// Publish writes each message to a file of its own, and returns when all of them would survive a power cut. An error without a class is taken for an
// outage: the route holds the message and tries again for ever, which is right for a full disk. Permanent is for what can never work.
func (p *spoolPublisher) Publish(topic string, messages ...*message.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if !isFolder(topic) {
		return handlers.Permanent(fmt.Errorf("topic %q is no name of a folder", topic))
	}
	folder := filepath.Join(p.root, topic)
	if err := makeFolder(folder); err != nil {
		return err
	}
	for _, msg := range messages {
		text, err := encode(msg)
		if err != nil {
			return handlers.Permanent(fmt.Errorf("message %q: %w", msg.UUID, err))
		}
		name, err := p.next(topic, folder)
		if err != nil {
			return err
		}
		if err := writeFile(folder, name, text); err != nil {
			return err
		}
	}
	return nil
}

// next gives a name that sorts after all that are there, even if the clock was set back. Its end is random: another process may write here too, and a
// file of the same name would replace ours.
func (p *spoolPublisher) next(topic, folder string) (string, error) {
	if _, known := p.last[topic]; !known {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			number, _, _ := strings.Cut(e.Name(), "-")
			if n, err := strconv.ParseInt(number, 10, 64); err == nil {
				p.last[topic] = max(p.last[topic], n)
			}
		}
	}
	p.last[topic] = max(p.last[topic]+1, time.Now().UnixNano())
	return fmt.Sprintf("%019d-%s.json", p.last[topic], rand.Text()[:8]), nil
}

// Close lets further calls of Publish fail. It waits for the one that is writing.
func (p *spoolPublisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// spoolSubscriber is a message.Subscriber.
type spoolSubscriber struct {
	spool   *spool
	options spoolSource
	health  *handlers.Health // Of the route's source; shown by /readyz.
	open    context.Context  // Ends with Close.
	cancel  context.CancelFunc

	mu      sync.Mutex // Guards the start of readers against Close.
	readers sync.WaitGroup
}

// Subscribe delivers the files of a topic, the oldest first, until ctx ends or the subscriber is closed; then the channel is closed. An error is shown
// with the route, which tries again later.
func (s *spoolSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	folder := filepath.Join(s.spool.root, topic)
	if err := makeFolder(folder); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return nil, errClosed
	}
	if err := s.spool.take(topic); err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	s.readers.Go(func() {
		defer close(out)
		defer s.spool.leave(topic)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.open, cancel)()
		s.read(ctx, folder, out)
	})
	return out, nil
}

// read delivers what is in folder, again and again.
func (s *spoolSubscriber) read(ctx context.Context, folder string, out chan<- *message.Message) {
	for ctx.Err() == nil {
		entries, err := os.ReadDir(folder) // Sorted by name.
		s.report(err)
		found := false
		for _, e := range entries {
			if isMessage(e) {
				found = true
				s.deliver(ctx, filepath.Join(folder, e.Name()), out)
			}
		}
		if !found {
			handlers.Pause(ctx, time.Duration(s.options.Poll))
		}
	}
}

// deliver hands out one file until it is acked, or ctx ends. The next one has to wait: that is what keeps the order.
func (s *spoolSubscriber) deliver(ctx context.Context, file string, out chan<- *message.Message) {
	for ctx.Err() == nil {
		msg, err := load(file)
		if errors.Is(err, fs.ErrNotExist) {
			return // Somebody took it away.
		}
		s.report(err)
		if err == nil && s.settle(ctx, msg, out) {
			s.remove(ctx, file)
			return
		}
		handlers.Pause(ctx, time.Duration(s.options.Pause)) // Without it a message that keeps failing would be a busy loop.
	}
}

// settle hands msg to the router, and tells whether it was acked.
func (s *spoolSubscriber) settle(ctx context.Context, msg *message.Message, out chan<- *message.Message) bool {
	ctx, end := context.WithCancel(ctx)
	defer end()
	msg.SetContext(ctx)
	select {
	case out <- msg:
	case <-ctx.Done():
		return false
	}
	select {
	case <-msg.Acked():
		return true
	case <-msg.Nacked():
		return false
	case <-ctx.Done():
	}
	// The route stops. If the destination has the message already, its ack is on the way: without waiting for it, each stop would repeat a message.
	select {
	case <-msg.Acked():
		return true
	case <-msg.Nacked():
		return false
	case <-time.After(time.Duration(s.options.Grace)):
		return false
	}
}

// remove forgets an acked message, also while the route stops. It is not synced: after a power cut the message may come again, but never get lost.
func (s *spoolSubscriber) remove(ctx context.Context, file string) {
	for {
		err := os.Remove(file)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		s.report(err)
		if ctx.Err() != nil {
			return
		}
		handlers.Pause(ctx, time.Duration(s.options.Pause))
	}
}

// report shows whether the spool works. Watermill's interfaces have no place for that; without it a route that reads nothing would look healthy.
func (s *spoolSubscriber) report(err error) {
	if err != nil {
		s.health.Down(err)
	} else {
		s.health.Up()
	}
}

// Close ends all readers and waits for them: at most for Grace, while a message is in flight.
func (s *spoolSubscriber) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.readers.Wait()
	return nil
}
