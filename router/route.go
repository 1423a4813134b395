package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// route keeps one route running, independent of all others.
type route struct {
	plan     routePlan
	from, to *site
	budget   *lane.Budget
	logger   *slog.Logger
	shutdown time.Duration

	meter             *handlers.Meter
	sourceHealth      *handlers.Health
	destinationHealth *handlers.Health

	mu    sync.Mutex
	phase Phase
	lanes func() map[string]lane.State
}

// run builds and runs the route until ctx ends; when it ends by itself, it is built again after a pause. The destination is connected
// before anything is consumed.
func (r *route) run(ctx context.Context) error {
	defer r.setPhase(Stopped, nil)
	to, err := r.to.wait(ctx)
	if err != nil {
		return nil
	}
	from, err := r.from.wait(ctx)
	if err != nil {
		return nil
	}
	backoff := lane.Backoff{Initial: time.Second, Max: 30 * time.Second}
	for n := 1; ; n++ {
		began := time.Now()
		err := r.once(ctx, from, to)
		if ctx.Err() != nil {
			return err
		}
		if time.Since(began) > backoff.Max { // It worked for a while: this is another failure.
			n = 1
		}
		r.meter.Restarts.Add(1)
		r.logger.Error("the route ended by itself, starting it again", "error", err)
		pause(ctx, backoff.After(n))
	}
}

// once runs the route until it ends by itself, or ctx does and it is stopped.
func (r *route) once(ctx context.Context, from, to handlers.Conn) error {
	a, err := r.build(from, to)
	if err != nil {
		return err
	}
	if l, ok := a.subscriber.(laned); ok {
		r.setPhase(Running, l.Lanes)
	} else {
		r.setPhase(Running, nil)
	}
	intake, stopIntake := context.WithCancel(context.WithoutCancel(ctx))
	defer stopIntake()
	ended := make(chan error, 1)
	go func() { ended <- a.watermill.Run(intake) }()
	select {
	case err := <-ended:
		return errors.Join(errOrEnded(err), a.stop(stopIntake, r.shutdown))
	case <-ctx.Done():
	}
	r.setPhase(Stopping, nil)
	err = a.stop(stopIntake, r.shutdown)
	return errors.Join(err, <-ended)
}

func errOrEnded(err error) error {
	if err != nil {
		return err
	}
	return errors.New("its subscriber stopped")
}

// stop ends the intake, waits until the lanes are empty and committed, then closes the Watermill router, then the publisher. After timeout
// it gives the lanes up: what is not acked by then will come again.
func (a *assembly) stop(stopIntake context.CancelFunc, timeout time.Duration) error {
	deadline := time.AfterFunc(timeout, func() {
		if l, ok := a.subscriber.(laned); ok {
			l.Abort()
		}
		// Ends the publishes that still wait for a confirm.
		_ = a.publisher.Close()
	})
	stopIntake()
	err := errors.Join(a.subscriber.Close(), a.watermill.Close(), a.publisher.Close())
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
	if lanes != nil || p == Stopped {
		r.lanes = lanes
	}
}
