package redisstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/redis/go-redis/v9"
)

// sayAgain is how often the stock package may repeat an error: without a server it says the same twice a second.
const sayAgain = time.Minute

// stockLogger lets the stock package log through slog. What it calls information is noise to an operator, what it traces is about single
// messages and is left out, and the end's Health tells of outages.
type stockLogger struct {
	logger *slog.Logger

	mu   *sync.Mutex
	said map[string]time.Time
}

func newStockLogger(l *slog.Logger) stockLogger {
	return stockLogger{logger: l, mu: &sync.Mutex{}, said: map[string]time.Time{}}
}

func (l stockLogger) Error(msg string, err error, fields watermill.LogFields) {
	if errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return // It is being closed.
	}
	l.mu.Lock()
	again := time.Since(l.said[msg]) < sayAgain
	if !again {
		l.said[msg] = time.Now()
	}
	l.mu.Unlock()
	if !again {
		l.log(slog.LevelWarn, msg, fields, slog.Any("error", err))
	}
}

func (l stockLogger) Info(msg string, fields watermill.LogFields) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l stockLogger) Debug(msg string, fields watermill.LogFields) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l stockLogger) Trace(string, watermill.LogFields) {}

func (l stockLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	attrs := make([]any, 0, len(fields))
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	l.logger = l.logger.With(attrs...)
	return l
}

func (l stockLogger) log(level slog.Level, msg string, fields watermill.LogFields, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	l.logger.LogAttrs(ctx, level, msg, attrs...)
}
