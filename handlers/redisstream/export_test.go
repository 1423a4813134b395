package redisstream

import (
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

// SetPingInterval sets how often the publishers that a Connection makes from now on look after an idle server.
func SetPingInterval(opened any, d time.Duration) { opened.(*connection).interval = d }

// SetResend sets the pause before the stock subscribers that a Connection makes from now on emit a nacked message again.
func SetResend(opened any, d time.Duration) { opened.(*connection).resend = d }

// NewStockLogger is what the stock package logs through.
func NewStockLogger(l *slog.Logger) watermill.LoggerAdapter { return newStockLogger(l) }
