package router

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// PoisonQueue is the poison queue of one route, open to be looked through. It works directly on the brokers, whether the route runs or not. It is for one goroutine.
type PoisonQueue struct {
	route    *route
	conns    conns
	shutdown time.Duration
}

// ParkedMessage is a message in a poison queue, and why it is there.
type ParkedMessage struct {
	Record      *record.Record // As it was at its source.
	Class       string         // Of the error: refused, permanent, full, unroutable.
	Reason      string         // The first line of the error.
	Attempts    int
	First, Last time.Time // When it failed.

	stored *record.Record
}

// pageSize is how many messages are looked at, or removed, at once.
const pageSize = 256

// OpenPoisonQueue connects to the poison queue of a route.
func OpenPoisonQueue(ctx context.Context, cfg *config.Config, name string, opts ...Option) (*PoisonQueue, error) {
	r, err := New(cfg, opts...)
	if err != nil {
		return nil, err
	}
	for _, route := range r.routes {
		if route.plan.Name != name {
			continue
		}
		if route.poison == nil {
			return nil, fmt.Errorf("route %q has no poison queue: it is off", name)
		}
		q := &PoisonQueue{route: route, shutdown: time.Duration(cfg.ShutdownTimeout)}
		if q.conns.poison, err = route.poison.attempt(ctx); err != nil {
			return nil, fmt.Errorf("open data center %q: %w", route.poison.name, err)
		}
		return q, nil
	}
	return nil, fmt.Errorf("there is no route %q", name)
}

// Place names the queue: datacenter/topic.
func (q *PoisonQueue) Place() string { return q.route.plan.poison.String() }

// Destination names where Replay delivers.
func (q *PoisonQueue) Destination() string { return q.route.plan.To.String() }

// Close closes the connections.
func (q *PoisonQueue) Close() error {
	var errs []error
	for _, c := range []handlers.Conn{q.conns.poison, q.conns.to, q.conns.from} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Each calls f for every message that the route has parked, oldest first, until f returns false. It takes nothing out.
func (q *PoisonQueue) Each(ctx context.Context, f func(ParkedMessage) (more bool)) error {
	return q.browse(ctx, func(b handlers.Browsing) error {
		for {
			page, end, err := q.page(ctx, b)
			for _, m := range page {
				if !f(m) {
					return nil
				}
			}
			if err != nil || end {
				return err
			}
		}
	})
}

// Discard takes the messages out for which choose returns true, and counts them. Choose is called in the order of the queue.
func (q *PoisonQueue) Discard(ctx context.Context, choose func(ParkedMessage) bool) (n int, err error) {
	err = q.browse(ctx, func(b handlers.Browsing) error {
		for {
			page, end, err := q.page(ctx, b)
			var chosen []*record.Record
			for _, m := range page {
				if choose(m) {
					chosen = append(chosen, m.stored)
				}
			}
			if removed := b.Remove(ctx, chosen); removed != nil {
				return errors.Join(err, removed)
			}
			n += len(chosen)
			if err != nil || end {
				return err
			}
		}
	})
	return n, err
}

func (q *PoisonQueue) browse(ctx context.Context, do func(handlers.Browsing) error) error {
	b, err := q.conns.poison.Browse(ctx, q.route.poisonQueue(), q.route.plan.poison.options)
	if err != nil {
		return fmt.Errorf("look through %s: %w", q.Place(), err)
	}
	err = do(b)
	if err != nil {
		err = fmt.Errorf("look through %s: %w", q.Place(), err)
	}
	return errors.Join(err, b.Close())
}

// page gives what is the route's of the next messages; end says that there are no more.
func (q *PoisonQueue) page(ctx context.Context, b handlers.Browsing) (page []ParkedMessage, end bool, err error) {
	records, err := b.Next(ctx, pageSize)
	for _, r := range records {
		original, why, ok := middleware.Unparked(r)
		if !ok || why[middleware.PoisonRoute] != q.route.plan.Name {
			continue
		}
		m := ParkedMessage{
			Record: original, stored: r,
			Class: why[middleware.PoisonClass], Reason: why[middleware.PoisonReason],
		}
		// What cannot be read, since somebody changed it, stays zero.
		m.Attempts, _ = strconv.Atoi(why[middleware.PoisonAttempts])
		m.First, _ = time.Parse(time.RFC3339Nano, why[middleware.PoisonFirst])
		m.Last, _ = time.Parse(time.RFC3339Nano, why[middleware.PoisonLast])
		page = append(page, m)
	}
	return page, len(records) == 0, err
}
