package main

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/middleware"
)

// pass sends a message through a stamp, and gives what came out at the other end: nil if nothing did.
func pass(s stamp, msg *message.Message) (out *message.Message, err error) {
	_, err = s.link(func(msg *message.Message) ([]*message.Message, error) {
		out = msg
		return nil, nil
	})(msg)
	return out, err
}

func TestAStampIsAHeaderMore(t *testing.T) {
	s := stamp{stampConfig{Header: "via", Value: "here"}, nil}
	for range 2 { // The second time it is a message that comes again.
		msg := message.NewMessage("1", []byte("x"))
		msg.Metadata.Set("other", "stays")
		out, err := pass(s, msg)
		require.NoError(t, err)
		require.Same(t, msg, out)
		require.Equal(t, message.Metadata{"via": "here", "other": "stays"}, out.Metadata)
	}
}

func TestAStampWithoutAValueIsTheNameOfTheHost(t *testing.T) {
	down := errors.New("down")
	s := stamp{defaultStamp(), func() (string, error) { return "ferry-1", down }}
	out, err := pass(s, message.NewMessage("1", nil))
	require.Nil(t, out)
	require.ErrorIs(t, err, down)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	down = nil
	out, err = pass(s, message.NewMessage("1", nil))
	require.NoError(t, err)
	require.Equal(t, "ferry-1", out.Metadata.Get("relayed-by"))
}

func TestAStampDoesNotOverwriteAnother(t *testing.T) {
	msg := message.NewMessage("1", nil)
	msg.Metadata.Set("via", "there")
	out, err := pass(stamp{stampConfig{Header: "via", Value: "here"}, nil}, msg)
	require.Nil(t, out)
	require.ErrorContains(t, err, `header "via" is "there" already`)
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err))
	require.Equal(t, "there", msg.Metadata.Get("via"))
}

func TestEmptyMessagesAreDroppedOnDemand(t *testing.T) {
	out, err := pass(stamp{stampConfig{Header: "via", Value: "here", DropEmpty: true}, nil}, message.NewMessage("1", nil))
	require.Nil(t, out)
	reason, dropped := middleware.Dropped(err)
	require.True(t, dropped)
	require.Equal(t, "it is empty", reason)
}
