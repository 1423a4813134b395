package command_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/command"
)

// guarded is a writer that others look at.
type guarded struct {
	mu *sync.Mutex
	to io.Writer
}

func (g guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.to.Write(b)
}

func TestARouteHasALineEveryTenSecondsWhileThereIsSomethingToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := router.Status{
			Route: "orders", Phase: router.Running, Meter: &handlers.Meter{},
			Source: router.End{Up: true}, Destination: router.End{Up: true},
		}
		var mu sync.Mutex // Of s and of the log.
		var log bytes.Buffer
		become := func(destination router.End) {
			mu.Lock()
			defer mu.Unlock()
			s.Destination = destination
		}
		status := func() []router.Status {
			mu.Lock()
			defer mu.Unlock()
			return []router.Status{s}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go command.Report(ctx, status, slog.New(slog.NewJSONHandler(guarded{&mu, &log}, nil)))
		next := func() []map[string]any {
			time.Sleep(10 * time.Second) // Of the bubble: no time passes.
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer log.Reset()
			return lines(t, log.String())
		}
		synctest.Wait()

		s.Meter.Fetched.Add(1000)
		s.Meter.Confirmed.Add(5)
		got := next()
		require.Len(t, got, 1)
		require.Equal(t, "INFO", got[0]["level"])
		require.Equal(t, "orders", got[0]["route"])
		require.InDelta(t, 100, got[0]["in_per_s"], 0.01)
		require.InDelta(t, 0.5, got[0]["out_per_s"], 0.01)
		require.NotContains(t, got[0], "trouble")

		require.Empty(t, next())

		become(router.End{Error: errors.New("connection refused")})
		for range 2 { // Trouble is told again and again.
			got = next()
			require.Len(t, got, 1)
			require.Equal(t, "WARN", got[0]["level"])
			require.Contains(t, got[0]["trouble"], "connection refused")
		}

		become(router.End{Up: true})
		require.Len(t, next(), 1)
		require.Empty(t, next())
	})
}
