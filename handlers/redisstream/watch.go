package redisstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqferry/mqferry/handlers"
)

// noPing is that an idle destination gave no sign of life.
type noPing struct{ error }

func (e noPing) Unwrap() error { return e.error }

// watch asks the server for a sign of life now and then while there is nothing to send: nothing else would notice that it is gone.
func (c *connection) watch(ctx context.Context, health *handlers.Health, idle func() bool) {
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if idle() {
			c.ping(ctx, health)
		}
	}
}

// ping takes back only what a ping has said: a message that is held for another reason may be between two attempts.
func (c *connection) ping(ctx context.Context, health *handlers.Health) {
	err := c.client.Ping(ctx).Err()
	if ctx.Err() != nil {
		return
	}
	if isNoPermission(err) {
		err = nil // It answers, though not to everybody.
	}
	up, _, was := health.State()
	var ours noPing
	switch {
	case err != nil && (up || errors.As(was, &ours)): // The reason may be another one by now.
		health.Down(noPing{fmt.Errorf("ping redis at %s: %w", c.at(), err)})
	case err == nil && errors.As(was, &ours):
		health.Up()
	}
}

// idle reports whether there is nothing that is to be answered.
func (p *publisher) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pipe := range p.pipes {
		if !pipe.idle() {
			return false
		}
	}
	return true
}
