package handlers

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// WatermillLogger lets a Watermill router, or pub/sub, log through slog, lower than it means to: what it calls information is noise to an operator, and
// what it says of a single message is for debugging. The route itself tells what holds it. What it logs for each good message costs nothing.
type WatermillLogger struct{ Logger *slog.Logger }

// Error logs an error: what concerns a single message for debugging only, and the end of a context not at all.
func (l WatermillLogger) Error(msg string, err error, fields watermill.LogFields) {
	if errors.Is(err, context.Canceled) {
		return
	}
	level := slog.LevelError
	if _, one := fields["message_uuid"]; one {
		level = slog.LevelDebug
	}
	l.Log(level, msg, fields, slog.Any("error", err))
}

// Info logs for debugging.
func (l WatermillLogger) Info(msg string, fields watermill.LogFields) {
	l.Log(slog.LevelDebug, msg, fields)
}

// Debug logs for debugging.
func (l WatermillLogger) Debug(msg string, fields watermill.LogFields) {
	l.Log(slog.LevelDebug, msg, fields)
}

// Trace logs nothing: it would for each message.
func (WatermillLogger) Trace(string, watermill.LogFields) {}

// With is Extended, as Watermill wants it.
func (l WatermillLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return l.Extended(fields)
}

// Extended gives a logger that adds fields.
func (l WatermillLogger) Extended(fields watermill.LogFields) WatermillLogger {
	attrs := make([]any, 0, len(fields))
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	return WatermillLogger{l.Logger.With(attrs...)}
}

// Log logs at level.
func (l WatermillLogger) Log(level slog.Level, msg string, fields watermill.LogFields, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.Logger.Enabled(ctx, level) {
		return
	}
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	l.Logger.LogAttrs(ctx, level, msg, attrs...)
}
