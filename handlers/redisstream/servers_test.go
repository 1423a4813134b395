package redisstream_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
)

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// eager lets a replica have its first copy at once.
var eager = []string{"--repl-diskless-sync-delay", "0"}

// replicate makes one server the replica of another.
func replicate(t *testing.T, of, replica string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: replica})
	defer client.Close()
	host, port := "NO", "ONE"
	if of != "" {
		var err error
		host, port, err = net.SplitHostPort(of)
		require.NoError(t, err)
	}
	require.NoError(t, client.ReplicaOf(t.Context(), host, port).Err())
	if of == "" {
		return
	}
	require.Eventually(t, func() bool {
		info, err := client.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, patience, 10*time.Millisecond, "the replica does not connect")
}

func several(addresses ...string) func(*redisstream.Config) {
	return func(c *redisstream.Config) {
		c.Address, c.DialTimeout = addresses, config.Duration(time.Second)
	}
}

func TestOneAddressIsTriedAfterTheOther(t *testing.T) {
	dead, server := nobody(t), brokers.RedisOwn(t)
	w := newWorld(t, server.Address(), server.Address())
	w.change = []func(*redisstream.Config){several(dead, server.Address())}
	w.produce(0, 10)
	stop := w.relay()
	w.settled(10)
	stop()

	_, err := redisstream.Open(t.Context(), func() redisstream.Config {
		c, _, _ := redisstream.DefaultConfig()
		c.Address = []string{dead, nobody(t)}
		return c
	}(), handlers.Settings{})
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.Equal(t, 2, strings.Count(err.Error(), "connect to redis at "), "%v", err)
	require.NotContains(t, err.Error(), "\n")
}

func TestAServerThatSwallowsConnectionsHoldsUpNobodyForLong(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	server := brokers.Redis(t, "a")
	w := newWorld(t, server.Address(), server.Address())
	w.change = []func(*redisstream.Config){several(silent.Addr().String(), server.Address()), func(c *redisstream.Config) {
		c.DialTimeout = config.Duration(200 * time.Millisecond)
	}}
	w.produce(0, 100)
	stop := w.relay()
	began := time.Now()
	w.settled(100)
	stop()
	require.Less(t, time.Since(began), 10*time.Second)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	c, _, _ := redisstream.DefaultConfig()
	c.Address = []string{silent.Addr().String(), silent.Addr().String(), server.Address()}
	conn, err := redisstream.Open(ctx, c, handlers.Settings{})
	require.NoError(t, err, "what is left of the time was not shared out")
	require.NoError(t, conn.Close())
}

func TestAReplicaIsLeftForThePrimary(t *testing.T) {
	primary, replica := brokers.RedisOwn(t, eager...), brokers.RedisOwn(t, eager...)
	replicate(t, primary.Address(), replica.Address())
	w := newWorld(t, primary.Address(), primary.Address())
	w.change = []func(*redisstream.Config){several(replica.Address(), primary.Address())}
	w.produce(0, 10)
	stop := w.relay()
	w.settled(10)
	stop()

	c, _, _ := redisstream.DefaultConfig()
	c.Address = []string{replica.Address()}
	_, err := redisstream.Open(t.Context(), c, handlers.Settings{})
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, "connect to redis at "+replica.Address()+": it is a replica")
}

func TestAFailoverLosesAndReordersNothing(t *testing.T) {
	both(t, func(t *testing.T, client redisstream.Client) {
		first, second := brokers.RedisOwn(t, eager...), brokers.RedisOwn(t, eager...)
		replicate(t, first.Address(), second.Address())
		source := brokers.Redis(t, "a")
		w := newWorld(t, source.Address(), second.Address())
		n := 5000
		w.change = []func(*redisstream.Config){func(c *redisstream.Config) { c.Client = client }}
		if client == redisstream.Watermill {
			n = 500
		} else {
			w.destOwn.WaitReplicas = 1 // What is confirmed is on both.
		}
		p := open(t, "", "publisher", append(w.change, several(first.Address(), second.Address()))...)
		defer p.Close()
		publisher, err := p.Publisher(w.destination, w.destOwn)
		require.NoError(t, err)
		defer publisher.Close()
		w.produce(0, n)
		stop := w.relayTo(publisher)
		w.eventually(func() bool { return int(w.source.Meter.Committed.Load()) >= n/10 }, "nothing is acked")
		direct := redis.NewClient(&redis.Options{Addr: first.Address()})
		defer direct.Close()
		// Nothing is written while the roles change, so nothing can be lost in between.
		require.NoError(t, direct.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE").Err())
		w.eventually(func() bool {
			a, err := direct.XLen(t.Context(), w.out).Result()
			return err == nil && int(a) == w.count()
		}, "the replica is behind")
		replicate(t, "", second.Address())
		replicate(t, second.Address(), first.Address())
		require.NoError(t, direct.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
		w.settled(n)
		stop()
		w.requireNoLoss(n, w.source.Window)
	})
}

func TestATopicIsFilledForEachMessage(t *testing.T) {
	both(t, func(t *testing.T, client redisstream.Client) {
		server := brokers.Redis(t, "b")
		w := newWorld(t, brokers.Redis(t, "a").Address(), server.Address())
		w.change = []func(*redisstream.Config){func(c *redisstream.Config) { c.Client = client }}
		template, err := record.ParseTemplate(w.out + ".{header.kind}")
		require.NoError(t, err)
		w.destination.Topic, w.destination.Template = template.String(), &template
		t.Cleanup(func() { w.there.Del(t.Context(), w.out+".0", w.out+".1", w.out+".2") })
		conn := open(t, server.Address(), "me", w.change...)
		defer conn.Close()
		text, err := conn.InspectDestination(t.Context(), w.destination, w.destOwn)
		require.NoError(t, err)
		require.Equal(t, strconv.Quote(template.String()), strings.TrimSuffix(strings.TrimPrefix(text, "streams named "), ": the first message for one creates it"))

		const n = 300
		for i := range n {
			require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{
				Stream: w.in, Values: []any{"kind", strconv.Itoa(i % 3), "payload", strconv.Itoa(i)},
			}).Err())
		}
		stop := w.relay()
		w.settled(n)
		stop()
		for kind := range 3 {
			entries, err := w.there.XRange(t.Context(), w.out+"."+strconv.Itoa(kind), "-", "+").Result()
			require.NoError(t, err)
			require.Len(t, entries, n/3)
			for i, e := range entries {
				require.Equal(t, strconv.Itoa(3*i+kind), e.Values["payload"])
			}
		}
	})
}

func TestWhatOneStreamRefusesAnotherMayTake(t *testing.T) {
	server := brokers.Redis(t, "b")
	w := newWorld(t, brokers.Redis(t, "a").Address(), server.Address())
	p := w.publisher()
	text := w.out + "-text"
	require.NoError(t, w.there.Set(t.Context(), text, "no stream", time.Minute).Err())
	err := p.Publish(text, message.NewMessage("id", []byte("payload")))
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
	require.ErrorContains(t, err, text)
	require.NoError(t, p.Publish(w.out, message.NewMessage("id", []byte("payload"))))
}

func TestAServerThatHangsIsLeftForTheNext(t *testing.T) {
	first, second := brokers.RedisOwn(t), brokers.RedisOwn(t)
	w := newWorld(t, first.Address(), second.Address())
	w.change = []func(*redisstream.Config){several(first.Address(), second.Address())}
	w.sourceOwn.Lease = config.Duration(time.Second)
	w.produce(0, 1)
	messages := w.subscribe(w.subscriber("me"))
	ack(w.receive(messages, 1)...)
	w.settled(1)
	first.Pause(t)
	defer first.Resume(t)
	require.NoError(t, w.there.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, Values: []any{"payload", "1"}}).Err())
	got := w.receive(messages, 1)
	require.Equal(t, []int{1}, w.numbers(got))
	ack(got...)
}
