package handlers_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

func TestAPlainWatermillHandlerPublishesWithoutARelay(t *testing.T) {
	r := newRoute(t)
	r.produce(0, 0, 500)
	w, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	require.NoError(t, err)
	w.AddHandler("plain", "in", r.subscriber(), "out", r.publisher(), message.PassthroughHandler)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	r.committed(0, 500)
	require.NoError(t, w.Close())
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the router did not end")
	}
	require.Len(t, r.to.Messages("out"), 500)
	require.Zero(t, r.source.Meter.Nacked.Load())
}
