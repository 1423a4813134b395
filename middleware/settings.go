package middleware

import (
	"log/slog"

	"github.com/mqferry/mqferry/handlers"
)

// Settings are what the router hands to a middleware.
type Settings struct {
	Route  string       // The route's name.
	Logger *slog.Logger // Never nil.
	// Health is that of the destination, which shows what holds a lane; nil is silent.
	Health *handlers.Health
	// Meter counts what happens on the route; nil counts nothing.
	Meter *handlers.Meter
	// OnClose registers what is to be called when the route has stopped: after its last message, the last one registered first. Never nil.
	OnClose func(func() error)
}
