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
}
