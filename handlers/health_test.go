package handlers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
)

func TestWaitingForABrokerEndsWhenItAnswers(t *testing.T) {
	h := handlers.NewHealth(nil)
	h.Down(errors.New("gone"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	waited := make(chan error, 2)
	for range 2 {
		go func() { waited <- h.Await(ctx) }()
	}
	select {
	case <-waited:
		t.Fatal("it is down")
	case <-time.After(20 * time.Millisecond): // Nothing to wait for: it must not come.
	}
	h.Up()
	require.NoError(t, <-waited)
	require.NoError(t, <-waited)
	require.NoError(t, h.Await(ctx), "it is up")
	h.Down(errors.New("gone"))
	cancel()
	require.ErrorIs(t, h.Await(ctx), context.Canceled)
}
