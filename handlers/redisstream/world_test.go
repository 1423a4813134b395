package redisstream_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/redisstream"
)

// open connects as the router does, with the types of the options erased.
func open(t testing.TB, address, instance string) handlers.Conn {
	t.Helper()
	broker := handlers.NewBroker(
		func() (redisstream.Config, redisstream.SourceConfig, redisstream.DestinationConfig) {
			c, s, d := redisstream.DefaultConfig()
			c.Address = address
			return c, s, d
		},
		redisstream.Open)
	dc, err := broker.DataCenter(config.Raw{})
	require.NoError(t, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: "here", Instance: instance})
	require.NoError(t, err)
	return conn
}
