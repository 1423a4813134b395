package router

import (
	"context"
	"log/slog"
	"time"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// openTimeout bounds one attempt to reach a broker.
const openTimeout = 30 * time.Second

// site is one data center's connection, shared by the routes: opened once, however many wait for it.
type site struct {
	name     string
	broker   handlers.DataCenter
	settings handlers.Settings
	health   *handlers.Health
	ready    chan struct{} // Closed once conn is set.
	conn     handlers.Conn
}

func newSite(name string, broker handlers.DataCenter, logger *slog.Logger, instance string) *site {
	logger = logger.With("datacenter", name)
	return &site{
		name: name, broker: broker,
		settings: handlers.Settings{DataCenter: name, Instance: instance, Logger: logger},
		health:   handlers.NewHealth(logger),
		ready:    make(chan struct{}),
	}
}

// open tries to connect until it succeeds or ctx ends.
func (s *site) open(ctx context.Context) {
	handlers.Again(ctx, lane.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second}, func() bool {
		conn, err := s.attempt(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.health.Down(err)
			}
			return false
		}
		s.conn = conn
		s.health.Up()
		close(s.ready)
		return true
	})
}

func (s *site) attempt(ctx context.Context) (handlers.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return s.broker.Open(ctx, s.settings)
}

// wait gives the connection once it is open.
func (s *site) wait(ctx context.Context) (handlers.Conn, error) {
	select {
	case <-s.ready:
		return s.conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *site) isOpen() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

func (s *site) close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
