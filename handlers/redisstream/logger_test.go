package redisstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/redisstream"
)

func TestTheStockPackageSaysTheSameOnceAMinute(t *testing.T) {
	log := &lines{}
	l := redisstream.NewStockLogger(slog.New(slog.NewTextHandler(log, nil)))
	for range 3 {
		l.Error("read fail", errors.New("no server"), watermill.LogFields{"topic": "orders"})
		l.With(watermill.LogFields{"topic": "orders"}).Error("read fail", errors.New("no server"), nil)
		l.Error("xack fail", errors.New("no server"), nil)
	}
	require.Equal(t, 2, strings.Count(log.String(), "\n"), log)
	require.Contains(t, log.String(), `level=WARN msg="read fail" error="no server" topic=orders`)
}

func TestTheStockPackageSaysNothingOfItsEndAndOfSingleMessages(t *testing.T) {
	log := &lines{}
	l := redisstream.NewStockLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})))
	l.Trace("Message Acked", nil)
	l.Error("read fail", fmt.Errorf("read: %w", context.Canceled), nil)
	l.Error("read fail", fmt.Errorf("read: %w", redis.ErrClosed), nil)
	require.Empty(t, log.String())
	l.Info("Subscribing", watermill.LogFields{"topic": "orders"})
	require.Contains(t, log.String(), "level=DEBUG")
}
