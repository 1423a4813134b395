package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/memory"
)

func TestTheMemoryBrokerKeepsEveryPromise(t *testing.T) {
	for name, lanes := range map[string]int{"one lane": 1, "four lanes": 4} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			_, source, destination := memory.DefaultConfig()
			destination.Lanes = lanes
			brokertest.Run(t, brokertest.Suite{
				Open: func(t *testing.T) handlers.Conn {
					dc, err := store.Broker().DataCenter(config.Raw{})
					require.NoError(t, err)
					conn, err := dc.Open(t.Context(), handlers.Settings{DataCenter: "here", Instance: "test"})
					require.NoError(t, err)
					return conn
				},
				Source: source, Destination: destination,
				Promises: brokertest.Promises{
					Keys: true, Nulls: true, HeaderOrder: true, HeaderNulls: true, Time: time.Nanosecond, Lanes: lanes,
					Outage: func(*testing.T) func() {
						store.Site("here").Down()
						return store.Site("here").Up
					},
				},
				Patience: patience,
			})
		})
	}
}
