package rabbitmq

import (
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
)

// stockLogger hears what the stock package says. Its errors go to failed, and whoever uses it tells of them; what it says about single messages, and that is
// all that it traces, is dropped. The lock also puts its notes about a connection, which it keeps without one, in an order.
type stockLogger struct {
	logger *slog.Logger
	mu     *sync.Mutex
	failed func(error) // May be nil.
}

func newStockLogger(l *slog.Logger, failed func(error)) stockLogger {
	return stockLogger{logger: l, mu: &sync.Mutex{}, failed: failed}
}

// Error notes that something went wrong; err may be nil.
func (l stockLogger) Error(msg string, err error, _ watermill.LogFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logger.Debug("watermill-amqp", "says", msg, "error", err)
	if l.failed != nil {
		l.failed(err)
	}
}

// Info is noise to an operator.
func (l stockLogger) Info(msg string, fields watermill.LogFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, single := fields["message_uuid"]; !single {
		l.logger.Debug("watermill-amqp", "says", msg)
	}
}

// Debug says nothing.
func (l stockLogger) Debug(string, watermill.LogFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// Trace says nothing: it would for each message.
func (stockLogger) Trace(string, watermill.LogFields) {}

// With adds nothing: what the fields are is known.
func (l stockLogger) With(watermill.LogFields) watermill.LoggerAdapter { return l }
