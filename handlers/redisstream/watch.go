package redisstream

import (
	"errors"
	"fmt"
	"time"
)

// noPing is that an idle destination gave no sign of life.
type noPing struct{ error }

func (e noPing) Unwrap() error { return e.error }

// watch asks the server for a sign of life now and then while there is nothing to send: nothing else would notice that it is gone.
func (p *publisher) watch() {
	ticker := time.NewTicker(p.connection.interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-ticker.C:
		}
		if p.idle() {
			p.ping()
		}
	}
}

// ping takes back only what a ping has said: a message that is held for another reason may be between two attempts.
func (p *publisher) ping() {
	err := p.connection.client.Ping(p.ctx).Err()
	if p.ctx.Err() != nil {
		return
	}
	health := p.destination.Health
	up, _, was := health.State()
	var ours noPing
	switch {
	case err != nil && up:
		health.Down(noPing{fmt.Errorf("ping redis at %s: %w", p.connection.config.Address, err)})
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
