package kafka_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/kafka"
)

func TestConfigFilesAreReadOrRefusedAsTheySay(t *testing.T) {
	brokertest.ConfigFiles(t, handlers.NewBroker(kafka.DefaultConfig, kafka.Open))
}

func TestAClusterThatCannotBeReachedIsUnavailable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	c, _, _ := kafka.DefaultConfig()
	c.Brokers = []string{address}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = kafka.Open(ctx, c, handlers.Settings{DataCenter: "here"})
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, address)
}

func TestInspectionTellsWhatARouteWouldFind(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(3, "in"))
	fill(t, w.address(), "in", 3, 10)
	conn := connect(t, w.address(), "")
	_, so, do := kafka.DefaultConfig()
	s := source("in")
	text, err := conn.InspectSource(t.Context(), s, so)
	require.NoError(t, err)
	require.Equal(t, `topic "in": 3 partitions, group "g" has no position and begins at earliest`, text)
	var c catch
	m := newMember(t, w.address(), "", s, c.add)
	c.await(t, 30)
	m.close()
	fill(t, w.address(), "in", 3, 2)
	text, err = conn.InspectSource(t.Context(), s, so)
	require.NoError(t, err)
	require.Equal(t, `topic "in": 3 partitions, group "g" has a position in 3 of them and is 6 messages behind`, text)
	_, err = conn.InspectSource(t.Context(), source("nowhere"), so)
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))

	text, err = conn.InspectDestination(t.Context(), handlers.Destination{Topic: "in"}, do)
	require.NoError(t, err)
	require.Equal(t, `topic "in": 3 partitions, records up to 1048588 bytes`, text)
	text, err = conn.InspectDestination(t.Context(), handlers.Destination{Topic: "new"}, do)
	require.NoError(t, err)
	require.Equal(t, `topic "new": would be created with the cluster's default partitions and replication factor the cluster's default`, text)
	do.Create = false
	_, err = conn.InspectDestination(t.Context(), handlers.Destination{Topic: "new"}, do)
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
}
