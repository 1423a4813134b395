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

	"github.com/mqferry/mqferry/handlers"
)

// sayAgain is how often the stock package may repeat an error: without a server it says the same twice a second.
const sayAgain = time.Minute

// stockLogger lets the stock package log: its errors are warnings, since the end's Health tells of outages.
type stockLogger struct {
	handlers.WatermillLogger

	mu   *sync.Mutex
	said map[string]time.Time
}

func newStockLogger(l *slog.Logger) stockLogger {
	return stockLogger{WatermillLogger: handlers.WatermillLogger{Logger: l}, mu: &sync.Mutex{}, said: map[string]time.Time{}}
}

// Error says the same once a minute at most, and nothing of what is being closed.
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
		l.Log(slog.LevelWarn, msg, fields, slog.Any("error", err))
	}
}

// With keeps what was said already.
func (l stockLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	l.WatermillLogger = l.Extended(fields)
	return l
}
