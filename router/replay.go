package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// Replayed is how far a replay is.
type Replayed struct {
	Delivered int   // The destination has confirmed them.
	Failed    int   // They are still in the poison queue: refused again, or dropped by the route's middleware.
	Err       error // Of the first that failed.
}

// Replay sends the messages for which choose returns true through the route again, each once, in the order of the queue, and takes those out that the destination has
// confirmed. It goes on when one fails, waits while the destination is unavailable, and ends with ctx: what is not confirmed by then stays. Progress, which may be nil, is
// called now and then, by one goroutine at a time.
func (q *PoisonQueue) Replay(ctx context.Context, choose func(ParkedMessage) bool, progress func(Replayed)) (Replayed, error) {
	if err := q.openEnds(ctx); err != nil {
		return Replayed{}, err
	}
	var done Replayed
	err := q.browse(ctx, func(b handlers.Browsing) (err error) {
		p := &replay{
			queue: q, browsing: b, choose: choose, progress: progress, finished: make(chan struct{}),
			stored: map[*record.Record]*record.Record{}, failed: map[*record.Record]struct{}{},
		}
		err = p.run(ctx)
		done = p.result()
		return err
	})
	return done, err
}

// openEnds connects to the destination, and to the source, which is only asked about its partitions: without it that question stays open.
func (q *PoisonQueue) openEnds(ctx context.Context) (err error) {
	if q.conns.to == nil {
		if q.conns.to, err = q.route.to.attempt(ctx); err != nil {
			return fmt.Errorf("open data center %q: %w", q.route.to.name, err)
		}
	}
	if q.conns.from == nil {
		if from, err := q.route.from.attempt(ctx); err == nil {
			q.conns.from = from
		}
	}
	return nil
}

// replay is a run of the route whose source is the poison queue: a lane whose settled messages are taken out of the queue instead of being acked.
type replay struct {
	queue    *PoisonQueue
	browsing handlers.Browsing
	choose   func(ParkedMessage) bool
	progress func(Replayed)
	finished chan struct{} // Closed when everything chosen is done with, or that cannot go on.

	mu     sync.Mutex // Guards the browsing, too.
	stored map[*record.Record]*record.Record
	failed map[*record.Record]struct{}
	read   bool // To the end.
	over   bool
	done   Replayed
	err    error
}

func (p *replay) run(ctx context.Context) error {
	route := p.queue.route
	parts, err := p.build()
	if err != nil {
		return err
	}
	intake, stopIntake := context.WithCancel(context.WithoutCancel(ctx))
	defer stopIntake()
	w, err := route.start(intake, parts)
	if err != nil {
		return errors.Join(err, parts.close())
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(intake) }()
	select {
	case <-p.finished:
	case <-ctx.Done():
	}
	<-w.Running()
	broken := p.broken()
	if broken != nil { // Nothing more can be taken out.
		parts.subscriber.(laned).Abort()
	}
	err = parts.stop(w, stopIntake, p.queue.shutdown)
	<-ended
	return errors.Join(broken, err, ctx.Err())
}

func (p *replay) broken() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// result is how far it came.
func (p *replay) result() Replayed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// build makes the parts of the route with the queue as their source. Nothing is tried again, and nothing is parked: it is already.
func (p *replay) build() (*parts, error) {
	r, c := p.queue.route, p.queue.conns
	source, destination := r.ends(c.from)
	parts := &parts{}
	var err error
	if parts.publisher, err = c.to.Publisher(destination, r.plan.destination); err != nil {
		return nil, err
	}
	plan := r.plan
	plan.policies.Retry.MaxAttempts = 1
	destination.GiveUp = []handlers.Class{handlers.ClassFull, handlers.ClassUnroutable}
	if parts.links, err = chain(plan, p.skip, r.settings(parts)); err != nil {
		return nil, errors.Join(err, parts.close())
	}
	parts.subscriber = handlers.NewSubscriber(source, p, 10*time.Millisecond)
	parts.relay = handlers.NewRelay(destination, parts.publisher, true, parts.gates...)
	return parts, nil
}

// skip is the link that takes what the destination does not: it stays in the queue.
func (p *replay) skip(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		r := record.From(msg.Context())
		produced, err := next(msg)
		if err == nil || handlers.ClassOf(err) == handlers.ClassCancelled {
			return produced, err
		}
		p.mu.Lock()
		p.failed[r] = struct{}{}
		if p.done.Err == nil {
			p.done.Err = err
		}
		p.mu.Unlock()
		handlers.Ticket(msg).Settle(lane.Dropped)
		return nil, nil
	}
}

// Fetch reads the queue to its end.
func (p *replay) Fetch(ctx context.Context, in *handlers.Intake) error {
	inlet := in.Inlet("poison", nil)
	for {
		p.mu.Lock()
		page, end, err := p.queue.page(ctx, p.browsing)
		var records []*record.Record
		for _, m := range page {
			if p.choose(m) {
				p.stored[m.Record] = m.stored
				records = append(records, m.Record)
			}
		}
		p.mu.Unlock()
		if len(records) > 0 {
			if err := inlet.Push(ctx, records...); err != nil {
				return err
			}
		}
		if end || err != nil {
			p.finish(err, true)
			<-ctx.Done()
			return ctx.Err()
		}
	}
}

// finish notes that reading has come to its end, or an error, and ends the replay when nothing is left to be done.
func (p *replay) finish(err error, read bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = p.read || read
	if p.err == nil {
		p.err = err
	}
	if p.read && (len(p.stored) == 0 || p.err != nil) && !p.over {
		p.over = true
		close(p.finished)
	}
}

// Commit takes what was delivered out of the queue.
func (p *replay) Commit(ctx context.Context, settled []handlers.Settled) error {
	for _, s := range settled {
		if err := p.remove(ctx, s.Records); err != nil {
			p.finish(err, true)
			return err
		}
	}
	p.finish(nil, false)
	return nil
}

func (p *replay) remove(ctx context.Context, records []*record.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var gone []*record.Record
	for _, r := range records {
		if _, failed := p.failed[r]; !failed && p.stored[r] != nil {
			gone = append(gone, p.stored[r])
		}
	}
	if err := p.browsing.Remove(ctx, gone); err != nil {
		return err
	}
	for _, r := range records {
		if _, known := p.stored[r]; known {
			delete(p.stored, r)
			delete(p.failed, r)
		}
	}
	p.done.Delivered += len(gone)
	p.done.Failed += len(records) - len(gone)
	if p.progress != nil {
		p.progress(p.done)
	}
	return nil
}

// Close has nothing to close: the browsing is the queue's.
func (p *replay) Close() error { return nil }
