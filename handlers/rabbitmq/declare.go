package rabbitmq

import (
	"context"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
)

// placesMost bounds how many places are remembered: a topic that is filled for each message may give any number of them.
const placesMost = 1 << 16

// places are the queues, or the exchange, that a publisher has seen to be there. What was returned, or is missing, is looked for again.
type places struct {
	mu     sync.Mutex
	known  map[string]bool // False when it was there and is missing.
	asking map[string]*question
}

// question is a look at a place, for which anybody who needs it waits.
type question struct {
	answered chan struct{}
	err      error
}

func (p *places) knows(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[name]
}

func (p *places) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[name] {
		p.known[name] = false
	}
}

// found notes that a place is there, and reports whether it was missing before.
func (p *places) found(name string) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	there, before := p.known[name]
	if len(p.known) >= placesMost {
		clear(p.known)
	}
	p.known[name] = true
	return before && !there
}

// ensure waits until it is known that a place is there, and makes it if it may. It returns within a few seconds.
func (p *publisher) ensure(name string) error {
	if p.places.knows(name) {
		return nil
	}
	q, err := p.ask(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, answerTimeout)
	defer cancel()
	select {
	case <-q.answered:
		return q.err
	case <-ctx.Done():
		if p.ctx.Err() != nil {
			return handlers.Unavailable(errClosed)
		}
		return handlers.Unavailable(fmt.Errorf("look for %q: no answer from rabbitmq within %s", name, answerTimeout))
	}
}

// ask gives the look at a place that is going on, or begins one.
func (p *publisher) ask(name string) (*question, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, handlers.Unavailable(errClosed)
	}
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	if q := p.places.asking[name]; q != nil {
		return q, nil
	}
	q := &question{answered: make(chan struct{})}
	p.places.asking[name] = q
	p.ends.Go(func() {
		q.err = p.declare(name)
		p.places.mu.Lock()
		delete(p.places.asking, name)
		p.places.mu.Unlock()
		close(q.answered)
	})
	return q, nil
}

// declare looks for a place, and makes it if it may. What exists is never changed.
func (p *publisher) declare(name string) error {
	ctx, cancel := context.WithTimeout(p.ctx, answerTimeout)
	defer cancel()
	l, err := p.current(ctx)
	if err != nil {
		return handlers.Unavailable(err)
	}
	if blocked := l.blocked.Load(); blocked != nil {
		return handlers.Unavailable(blocked)
	}
	look := lookForQueue
	if p.options.Exchange != "" {
		look = lookForExchange
	}
	err = throwAway(l.conn, func(ch *amqp.Channel) error { return look(ch, name) })
	switch {
	case err == nil:
		p.places.found(name)
	case isMissing(err) && p.options.Create:
		return p.make(l.conn, name)
	case isMissing(err):
		return handlers.Unroutable(fmt.Errorf("%w; make it, or set create: true", err))
	case hasCode(err, amqp.AccessRefused), hasCode(err, amqp.ResourceLocked):
		p.places.found(name) // Who may not look at it may still be allowed to publish to it.
	default:
		return handlers.Unavailable(fmt.Errorf("look for %q: %w", name, err))
	}
	return nil
}

// make declares a place that is missing.
func (p *publisher) make(conn *amqp.Connection, name string) error {
	err := throwAway(conn, func(ch *amqp.Channel) error {
		if p.options.Exchange != "" {
			return ch.ExchangeDeclare(name, p.options.ExchangeType, true, false, false, false, nil)
		}
		_, err := ch.QueueDeclare(name, true, false, false, false, p.arguments)
		return err
	})
	if err != nil {
		return handlers.Unavailable(fmt.Errorf("%q is missing and could not be made: %w", name, err))
	}
	if p.places.found(name) {
		p.destination.Meter.Recreated.Add(1)
		p.destination.Logger.Warn("was missing, made again", "place", name)
	}
	return nil
}

// throwAway asks on a channel of its own, since RabbitMQ closes it with a no.
func throwAway(conn *amqp.Connection, ask func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ask(ch); err != nil {
		_ = ch.Close()
		return err
	}
	return ch.Close()
}

func lookForQueue(ch *amqp.Channel, name string) error {
	_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	return err
}

func lookForExchange(ch *amqp.Channel, name string) error {
	return ch.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
}
