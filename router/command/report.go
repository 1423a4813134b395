package command

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/mqferry/mqferry/router"
)

// reportEvery is how often the log tells what the routes do.
const reportEvery = 10 * time.Second

// reporter writes a line for each route from time to time: how fast it is, and what troubles it.
type reporter struct {
	status func() []router.Status
	logger *slog.Logger
	last   map[string]tally
	asked  time.Time
}

// tally is what a route had counted when it was last asked.
type tally struct {
	fetched, confirmed int64
	inFlight           int
	trouble            string
}

func newReporter(status func() []router.Status, logger *slog.Logger) *reporter {
	return &reporter{status: status, logger: logger, last: map[string]tally{}, asked: time.Now()}
}

// run reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.report(ctx)
		}
	}
}

// report writes the lines of the routes that moved, or that are in trouble.
func (r *reporter) report(ctx context.Context) {
	now := time.Now()
	seconds := now.Sub(r.asked).Seconds()
	r.asked = now
	for _, s := range r.status() {
		t := tally{s.Meter.Fetched.Load(), s.Meter.Confirmed.Load(), s.InFlight(), s.Trouble()}
		before := r.last[s.Route]
		r.last[s.Route] = t
		if t == before && t.trouble == "" {
			continue
		}
		level, attrs := slog.LevelInfo, []slog.Attr{
			slog.String("route", s.Route),
			slog.Float64("in_per_s", perSecond(t.fetched-before.fetched, seconds)),
			slog.Float64("out_per_s", perSecond(t.confirmed-before.confirmed, seconds)),
			slog.Int("in_flight", t.inFlight),
		}
		if t.trouble != "" {
			level, attrs = slog.LevelWarn, append(attrs, slog.String("trouble", t.trouble))
		}
		r.logger.LogAttrs(ctx, level, "route", attrs...)
	}
}

// perSecond keeps one digit behind the point: a slow route moves too.
func perSecond(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return math.Round(float64(n)/seconds*10) / 10
}
