package handlers

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Health is what one end of a route knows of its broker. It logs each change once. A nil Health takes every call. Safe for concurrent use.
type Health struct {
	logger *slog.Logger

	mu    sync.Mutex
	known bool
	up    bool
	since time.Time
	err   error
	no    error
	noAt  time.Time
	told  time.Time
	rose  chan struct{} // Closed at the next Up; nil while nobody waits.
}

// NewHealth makes the health of an end, not up yet. A nil logger is silent.
func NewHealth(logger *slog.Logger) *Health {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Health{logger: logger, since: time.Now()}
}

// Up says that the broker answered.
func (h *Health) Up() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up {
		return
	}
	down := time.Since(h.since).Round(time.Millisecond)
	if h.known {
		h.logger.Info("up again", "after", down.String())
	}
	h.known, h.up, h.err, h.since = true, true, nil, time.Now()
	if h.rose != nil {
		close(h.rose)
		h.rose = nil
	}
}

// Await waits until the broker answers, or ctx ends, and returns what ctx ended with.
func (h *Health) Await(ctx context.Context) error {
	if h == nil {
		return ctx.Err()
	}
	h.mu.Lock()
	if h.up {
		h.mu.Unlock()
		return ctx.Err()
	}
	if h.rose == nil {
		h.rose = make(chan struct{})
	}
	rose := h.rose
	h.mu.Unlock()
	select {
	case <-rose:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Down says that the broker did not answer, and why.
func (h *Health) Down(err error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known || h.up {
		h.logger.Warn("down, trying again", "error", err)
		h.since = time.Now()
	}
	h.known, h.up, h.err = true, false, err
}

// Known reports whether Up or Down was ever called.
func (h *Health) Known() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known
}

// State tells whether the broker answers, since when that is so, and the last error while it does not.
func (h *Health) State() (up bool, since time.Time, err error) {
	if h == nil {
		return false, time.Time{}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.up, h.since, h.err
}

// Refused notes that a message was refused, by the broker or on the way to it, so that its lane is held. It is logged once a minute at most.
func (h *Health) Refused(err error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.no, h.noAt = err, time.Now()
	if h.noAt.Sub(h.told) > time.Minute {
		h.told = h.noAt
		h.logger.Error("a message does not go through, its lane is held", "error", err)
	}
}

// Refusal tells when a message was last refused, and why; nil if none ever was.
func (h *Health) Refusal() (at time.Time, err error) {
	if h == nil {
		return time.Time{}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.noAt, h.no
}
