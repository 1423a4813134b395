package middleware

import "log/slog"

// Settings are what the router hands to a middleware.
type Settings struct {
	Route  string       // The route's name.
	Logger *slog.Logger // Never nil.
}
