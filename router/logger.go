package router

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// watermillLogger lets a Watermill router log through slog, lower than it means to: what it calls information is noise to an operator, and
// what it says of a single message is for debugging. The route itself tells what holds it. What it logs for each good message costs nothing.
type watermillLogger struct{ logger *slog.Logger }

func (l watermillLogger) Error(msg string, err error, fields watermill.LogFields) {
	if errors.Is(err, context.Canceled) {
		return
	}
	level := slog.LevelError
	if _, one := fields["message_uuid"]; one {
		level = slog.LevelDebug
	}
	l.log(level, msg, fields, slog.Any("error", err))
}

func (l watermillLogger) Info(msg string, fields watermill.LogFields) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l watermillLogger) Debug(msg string, fields watermill.LogFields) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l watermillLogger) Trace(string, watermill.LogFields) {}

func (l watermillLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	attrs := make([]any, 0, len(fields))
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	return watermillLogger{l.logger.With(attrs...)}
}

func (l watermillLogger) log(level slog.Level, msg string, fields watermill.LogFields, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	l.logger.LogAttrs(ctx, level, msg, attrs...)
}
