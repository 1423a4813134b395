package demo

import (
	"context"
	"time"

	"github.com/mqferry/mqferry/handlers"
)

const (
	// deadFor is how long the link goes dead, at most a fifth of a short demo.
	deadFor = 2 * time.Second
	// A demo without an end has its first outage early, and then one from time to time.
	firstDead = 5 * time.Second
	nextDead  = 30 * time.Second
)

// outages lets the link go dead: once in a demo of a given length, again and again in one without end. Packets wait, and no connection is
// reset: a reset would leave the outcome of what was on the way unknown, and that costs duplicates, rightly.
func (d *demo) outages(ctx context.Context) {
	first, next, dead := firstDead, nextDead, deadFor
	if d.options.For > 0 {
		first, next, dead = d.options.For*2/5, 0, min(deadFor, d.options.For/5)
	}
	for pause := first; wait(ctx, pause); pause = next {
		d.outage(ctx, dead)
		if next == 0 {
			return
		}
	}
}

func (d *demo) outage(ctx context.Context, dead time.Duration) {
	d.dead.Store(true)
	d.world.link.Stall()
	d.screen.say("%s  the link goes dead for %v", d.clock(), dead)
	wait(ctx, dead)
	behind := d.producer.confirmed.Load()
	healed := time.Now()
	if err := d.world.link.Heal(); err != nil {
		d.fail(err)
		return
	}
	d.dead.Store(false)
	if d.await(drainTimeout, func() bool { return d.consumer.delivered.Load() >= behind }) {
		d.screen.say("%s  the link is back, and %v later all that had waited has arrived", d.clock(), time.Since(healed).Round(10*time.Millisecond))
	}
}

// wait is false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	handlers.Pause(ctx, d)
	return ctx.Err() == nil
}
