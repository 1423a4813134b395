package middleware_test

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/middleware"
)

func TestStackChangesNothing(t *testing.T) {
	msg := message.NewMessage("1", nil)
	out := []*message.Message{message.NewMessage("2", nil)}
	produced, err := middleware.Stack(func(got *message.Message) ([]*message.Message, error) {
		require.Same(t, msg, got)
		return out, errors.New("failed")
	})(msg)
	require.Equal(t, out, produced)
	require.EqualError(t, err, "failed")
}
