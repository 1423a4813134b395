package redisstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	good := func() (redisstream.Config, redisstream.SourceConfig, redisstream.DestinationConfig) {
		c, s, d := redisstream.DefaultConfig()
		c.Address = []string{"127.0.0.1:6379"}
		return c, s, d
	}
	c, s, d := good()
	require.NoError(t, c.Validate())
	require.NoError(t, s.Validate())
	require.NoError(t, d.Validate())
	for want, change := range map[string]func(*redisstream.Config, *redisstream.SourceConfig, *redisstream.DestinationConfig){
		`address: is missing; write for example "127.0.0.1:6379"`: func(c *redisstream.Config, _ *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			c.Address = nil
		},
		`address: "redis" is not host:port`: func(c *redisstream.Config, _ *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			c.Address = []string{"redis"}
		},
		"db: -1 is negative": func(c *redisstream.Config, _ *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			c.DB = new(int)
			*c.DB = -1
		},
		"password: is missing": func(c *redisstream.Config, _ *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			c.Username = "me"
		},
		"dial_timeout: is 0": func(c *redisstream.Config, _ *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			c.DialTimeout = 0
		},
		"lease: 1ms is not between 100ms and 24h": func(_ *redisstream.Config, s *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			s.Lease = config.Duration(time.Millisecond)
		},
		"claim_idle: 48h is not between": func(_ *redisstream.Config, s *redisstream.SourceConfig, _ *redisstream.DestinationConfig) {
			s.ClaimIdle = config.Duration(48 * time.Hour)
		},
		"max_length: -1 is negative": func(_ *redisstream.Config, _ *redisstream.SourceConfig, d *redisstream.DestinationConfig) {
			d.MaxLength = -1
		},
		"wait_replicas: -1 is negative": func(_ *redisstream.Config, _ *redisstream.SourceConfig, d *redisstream.DestinationConfig) {
			d.WaitReplicas = -1
		},
		"wait_timeout: 0s is less than 1ms": func(_ *redisstream.Config, _ *redisstream.SourceConfig, d *redisstream.DestinationConfig) {
			d.WaitTimeout = 0
		},
		"confirm_timeout: 1s is less than twice the wait_timeout of 1s": func(_ *redisstream.Config, _ *redisstream.SourceConfig, d *redisstream.DestinationConfig) {
			d.ConfirmTimeout = config.Duration(time.Second)
		},
	} {
		t.Run(want, func(t *testing.T) {
			c, s, d := good()
			change(&c, &s, &d)
			err := config.Join(c.Validate(), s.Validate(), d.Validate())
			require.ErrorContains(t, err, want)
		})
	}
}

func TestAServerThatCannotBeReachedIsUnavailable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	c, _, _ := redisstream.DefaultConfig()
	c.Address = []string{address}
	_, err = redisstream.Open(t.Context(), c, handlers.Settings{DataCenter: "here"})
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, address)
}

func TestAPasswordIsUsedAtBothEndsAndShownNowhere(t *testing.T) {
	const canary = "canary-4711"
	silent := slog.New(slog.DiscardHandler)
	server := brokers.RedisOwn(t, "--aclfile", aclFile(t, "user default on nopass -@all +ping", "user ferry on >"+canary+" ~* &* +@all"))
	c, _, d := redisstream.DefaultConfig()
	number := 3
	c.Address, c.Username, c.Password, c.DB = []string{server.Address()}, "ferry", canary, &number
	conn, err := redisstream.Open(t.Context(), c, handlers.Settings{DataCenter: "here", Instance: "me"})
	require.NoError(t, err)
	defer conn.Close()
	text, err := conn.(handlers.Inspector[redisstream.SourceConfig, redisstream.DestinationConfig]).
		InspectDestination(t.Context(), handlers.Destination{Topic: "s"}, d)
	require.NoError(t, err)
	require.Equal(t, "stream that does not exist yet: the first message creates it", text)
	p, err := conn.Publisher(handlers.Destination{Topic: "s", Logger: silent, Meter: newMeter(), Health: handlers.NewHealth(silent)}, d)
	require.NoError(t, err)
	require.NoError(t, p.Publish("s", message.NewMessage("id", []byte("payload"))))
	require.NoError(t, p.Close())
	_, o, _ := redisstream.DefaultConfig()
	s, err := conn.Subscriber(handlers.Source{
		Topic: "s", Group: "g", Window: 1, Logger: silent, Meter: newMeter(), Health: handlers.NewHealth(silent),
	}, o)
	require.NoError(t, err)
	messages, err := s.Subscribe(t.Context(), "s")
	require.NoError(t, err)
	select {
	case msg := <-messages:
		require.Equal(t, "payload", string(msg.Payload))
		msg.Ack()
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	require.NoError(t, s.Close())

	c.Password = canary + "-wrong"
	_, err = redisstream.Open(t.Context(), c, handlers.Settings{DataCenter: "here"})
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.NotContains(t, fmt.Sprintf("%v %+v", err, c), canary)
}

func aclFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "users.acl")
	text := ""
	for _, l := range lines {
		text += l + "\n"
	}
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestInspectionTellsWhatIsThere(t *testing.T) {
	w := newSource(t)
	conn := open(t, w.from, "me")
	defer conn.Close()
	source := func() string {
		t.Helper()
		text, err := conn.InspectSource(t.Context(), w.source, w.sourceOwn)
		require.NoError(t, err)
		return text
	}
	require.Equal(t, `stream that does not exist yet: the first message creates it, group "mqferry-test" would be created at earliest`, source())
	w.produce(0, 3)
	require.Equal(t, `stream with 3 entries, group "mqferry-test" would be created at earliest`, source())
	w.createGroup()
	w.readAs("somebody", 2)
	require.Regexp(t, `^stream with 3 entries, group "mqferry-test" stands at \d+-\d+ with 2 pending$`, source())

	w.destination.Topic = w.in
	text, err := conn.InspectDestination(t.Context(), w.destination, w.destOwn)
	require.NoError(t, err)
	require.Equal(t, "stream with 3 entries", text)

	w.source.Topic = w.in + "-text"
	require.NoError(t, w.client.Set(t.Context(), w.source.Topic, "text", time.Minute).Err())
	_, err = conn.InspectSource(context.Background(), w.source, w.sourceOwn)
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
}
