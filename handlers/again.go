package handlers

import (
	"context"
	"time"

	"github.com/mqferry/mqferry/handlers/lane"
)

// defaultBackoff gives the pauses after failures on the way.
func defaultBackoff() lane.Backoff {
	return lane.Backoff{Initial: 100 * time.Millisecond, Max: 5 * time.Second}
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Again calls do until it returns true or ctx ends, with pauses between that grow. A call that took longer than the longest pause worked for a
// while: what follows it is a first failure.
func Again(ctx context.Context, b lane.Backoff, do func() (done bool)) {
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		if do() || ctx.Err() != nil {
			return
		}
		if time.Since(began) > b.Max {
			n = 1
		}
		Pause(ctx, b.After(n))
	}
}
