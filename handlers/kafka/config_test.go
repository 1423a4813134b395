package kafka_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
)

// check decodes the options of every data center and route, as the router does.
func check(c *config.Config) error {
	var errs []error
	centers := map[string]handlers.DataCenter{}
	for _, d := range c.DataCenters {
		dc, err := handlers.NewBroker(kafka.DefaultConfig, kafka.Open).DataCenter(d.Options)
		errs = append(errs, err)
		centers[d.Name] = dc
	}
	for _, r := range c.Routes {
		if from := centers[r.From.DataCenter]; from != nil {
			_, err := from.SourceOptions(r.From)
			errs = append(errs, err)
		}
		if to := centers[r.To.DataCenter]; to != nil {
			_, err := to.DestinationOptions(r.To)
			errs = append(errs, err)
		}
	}
	return config.Join(errs...)
}

func TestConfigFilesAreReadOrRefusedAsTheySay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := config.Load([]string{file}, config.WithBrokers("kafka"), config.WithCheck(check))
			if strings.HasSuffix(file, ".good.yml") {
				require.NoError(t, err)
				return
			}
			text, readErr := os.ReadFile(file)
			require.NoError(t, readErr)
			n := 0
			for line := range strings.Lines(string(text)) {
				if want, ok := strings.CutPrefix(line, "# want: "); ok {
					require.ErrorContains(t, err, strings.TrimSpace(want))
					n++
				}
			}
			require.Equal(t, n, strings.Count(err.Error(), "\n")+1, err)
		})
	}
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
