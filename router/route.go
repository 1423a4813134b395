package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// route keeps one route running, independent of all others.
type route struct {
	plan     routePlan
	from, to *site
	poison   *site // Nil where nothing is parked.
	budget   *lane.Budget
	bytes    int64 // What its window may hold, for brokers to size their buffers by.
	logger   *slog.Logger
	shutdown time.Duration

	meter             *handlers.Meter
	sourceHealth      *handlers.Health
	destinationHealth *handlers.Health
	poisonHealth      *handlers.Health

	mu    sync.Mutex
	phase Phase
	lanes func() map[string]lane.State
}

// run builds and runs the route until ctx ends; when it ends by itself, it is built again after a pause. The destination is connected
// before anything is consumed.
func (r *route) run(ctx context.Context) error {
	defer r.setPhase(Stopped, nil)
	c, err := r.connect(ctx)
	if err != nil {
		return nil
	}
	handlers.Again(ctx, lane.Backoff{Initial: time.Second, Max: 30 * time.Second}, func() bool {
		failed := r.once(ctx, c)
		if ctx.Err() != nil {
			err = failed
			return true
		}
		r.meter.Restarts.Add(1)
		r.logger.Error("the route ended by itself, starting it again", "error", failed)
		r.setPhase(Waiting, nil)
		return false
	})
	return err
}

// connect waits for the connections, the destination's first. It fails when ctx ends.
func (r *route) connect(ctx context.Context) (c conns, err error) {
	if c.to, err = r.to.wait(ctx); err != nil {
		return c, err
	}
	if r.poison != nil {
		if c.poison, err = r.poison.wait(ctx); err != nil {
			return c, err
		}
	}
	c.from, err = r.from.wait(ctx)
	return c, err
}

// grace is what a stop may take beyond shutdown_timeout: for handlers whose lanes were given up.
const grace = 5 * time.Second

// once runs the route until it ends by itself, or ctx does and it is stopped.
func (r *route) once(ctx context.Context, c conns) error {
	p, err := r.build(ctx, c)
	if err != nil {
		return err
	}
	intake, stopIntake := context.WithCancel(context.WithoutCancel(ctx))
	defer stopIntake()
	w, err := r.start(intake, p)
	if err != nil {
		return errors.Join(err, p.close())
	}
	if l, ok := p.subscriber.(laned); ok {
		r.setPhase(Running, l.Lanes)
	} else {
		r.sourceHealth.Up() // It does not tell: what it subscribed to was there.
		r.setPhase(Running, nil)
	}
	r.logger.Info("running", "from", r.plan.From.String(), "to", r.plan.To.String())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(intake) }()
	select {
	case err := <-ended:
		r.sourceHealth.Down(errEnded)
		return errors.Join(errEnded, err, p.stop(w, stopIntake, r.shutdown))
	case <-ctx.Done():
	}
	<-w.Running() // A Watermill router can be closed only after it runs.
	r.setPhase(Stopping, nil)
	return p.stop(w, stopIntake, r.shutdown)
}

var errEnded = errors.New("its subscriber stopped")

// stop ends the intake, waits until the lanes are empty and committed, then closes the Watermill router, then the publisher. After timeout
// it gives the lanes up: what is not acked by then will come again.
func (p *parts) stop(w *message.Router, stopIntake context.CancelFunc, timeout time.Duration) error {
	deadline := time.AfterFunc(timeout, func() {
		if l, ok := p.subscriber.(laned); ok {
			l.Abort()
		}
		// Ends the publishes that still wait for a confirm.
		_ = p.closePublishers()
	})
	stopIntake()
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(p.subscriber.Close(), w.Close()) }()
	var err error
	select {
	case err = <-closed:
	case <-time.After(timeout + grace):
		err = errors.New("a middleware does not return: it is left behind")
	}
	err = errors.Join(err, p.closePublishers(), p.closeMiddleware())
	if !deadline.Stop() {
		late := fmt.Errorf("not everything in flight was settled within shutdown_timeout (%v): the source will deliver it again", timeout)
		return errors.Join(late, err)
	}
	return err
}

func (r *route) setPhase(p Phase, lanes func() map[string]lane.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
	if p != Stopping {
		r.lanes = lanes
	}
}
