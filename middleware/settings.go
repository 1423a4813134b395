package middleware

import (
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
)

// Settings are what the router hands to a middleware.
type Settings struct {
	Route  string       // The route's name.
	Logger *slog.Logger // Never nil.
	// Health is that of the destination, which shows what holds a lane; nil is silent.
	Health *handlers.Health
	// Meter counts what happens on the route; never nil.
	Meter *handlers.Meter
	// OnClose registers what is to be called when the route has stopped: after its last message, the last one registered first. Never nil.
	OnClose func(func() error)
	// AtTurn registers what is called for each message at its turn, just before it is published, one message of a lane at a time. An error goes up the
	// chain. Waiting holds up the lane. Never nil.
	AtTurn func(func(*message.Message) error)
}

// complete fills in what a test may leave out.
func (s Settings) complete() Settings {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Meter == nil {
		s.Meter = &handlers.Meter{}
	}
	if s.OnClose == nil {
		s.OnClose = func(func() error) {}
	}
	if s.AtTurn == nil {
		s.AtTurn = func(func(*message.Message) error) {}
	}
	return s
}
