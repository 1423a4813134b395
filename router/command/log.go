package command

import "log/slog"

// logLook is how the log is to look.
type logLook struct{ level, format string }

// logger writes to standard error: text where a person reads it, otherwise JSON.
func (p program) logger(look logLook) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	options := &slog.HandlerOptions{Level: levels[look.level]}
	if look.format == "text" || look.format == "auto" && p.errTerminal {
		return slog.New(slog.NewTextHandler(p.err, options))
	}
	return slog.New(slog.NewJSONHandler(p.err, options))
}
