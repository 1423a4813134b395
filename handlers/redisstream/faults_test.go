package redisstream_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/integration/brokers"
)

// killClients ends every connection to a server again and again, until the returned function is called.
func killClients(t *testing.T, address string, every time.Duration) (stop func() (killed int)) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	ctx, cancel := context.WithCancel(context.Background())
	kills := make(chan int)
	go func() {
		total := 0
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				kills <- total
				return
			case <-ticker.C:
				n, _ := client.ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes").Result()
				total += int(n)
			}
		}
	}()
	return func() int {
		cancel()
		defer client.Close()
		return <-kills
	}
}

// requireNoLoss checks that everything arrived, first arrivals in order, with at most so many duplicates.
func (w *world) requireNoLoss(n, duplicates int) {
	w.Helper()
	all, first := w.arrived()
	require.Len(w, first, n)
	require.True(w, slices.IsSorted(first), "first arrivals are out of order")
	require.LessOrEqual(w, len(all)-n, duplicates, "duplicates")
}

func TestConnectionsThatAreKilledAllTheTimeLoseAndReorderNothing(t *testing.T) {
	source, destination := brokers.Redis(t, "a"), brokers.Redis(t, "b")
	w := newWorld(t, source.Address(), destination.Address())
	w.source.Window = 500
	const n = 20_000
	w.produce(0, n)
	stopKilling := []func() int{killClients(t, source.Address(), 70*time.Millisecond), killClients(t, destination.Address(), 50*time.Millisecond)}
	stop := w.relay()
	w.eventually(func() bool { return w.source.Meter.Committed.Load() >= n/2 }, "half of it was not acked")
	killed := 0
	for _, s := range stopKilling {
		killed += s()
	}
	require.Greater(t, killed, 3)
	w.settled(n)
	stop()
	w.requireNoLoss(n, killed*w.source.Window)
	require.Positive(t, w.source.Meter.Reconnects.Load())
	require.Positive(t, w.destination.Meter.Reconnects.Load())
}

func TestServersThatCrashLoseAndReorderNothing(t *testing.T) {
	source, destination := brokers.RedisOwn(t, "--appendfsync", "always"), brokers.RedisOwn(t, "--appendfsync", "always")
	w := newWorld(t, source.Address(), destination.Address())
	w.source.Window = 200
	const n = 10_000
	w.produce(0, n)
	stop := w.relay()
	for i, server := range []*brokers.Broker{destination, source, destination, source} {
		w.eventually(func() bool { return int(w.source.Meter.Committed.Load()) >= n*(i+1)/10 }, "nothing arrives")
		server.Kill(t)
		server.Start(t)
	}
	w.settled(n)
	stop()
	w.requireNoLoss(n, 8*w.source.Window)
}

func TestALinkThatGoesDeadIsGivenUpAndUsedAgain(t *testing.T) {
	source, destination := brokers.Redis(t, "a"), brokers.Redis(t, "b")
	w := newWorld(t, source.Address(), destination.Address())
	w.destOwn.ConfirmTimeout = config.Duration(400 * time.Millisecond)
	w.destOwn.WaitTimeout = config.Duration(100 * time.Millisecond)
	link := destination.Link(t)
	w.to = link.Address()
	const n = 5000
	w.produce(0, n)
	stop := w.relay()
	w.eventually(func() bool { return w.count() > 100 }, "nothing arrives")
	link.Stall()
	w.eventually(func() bool { return w.destination.Meter.Failed.Load() > 0 }, "nobody noticed the dead link")
	require.NoError(t, link.Heal())
	w.settled(n)
	stop()
	w.requireNoLoss(n, 3*w.source.Window)
}

func TestAServerWithoutMemoryHoldsTheLaneUntilThereIsSome(t *testing.T) {
	source, destination := brokers.Redis(t, "a"), brokers.RedisOwn(t)
	w := newWorld(t, source.Address(), destination.Address())
	w.produce(0, 1000)
	stop := w.relay()
	w.settled(1000)
	require.NoError(t, w.there.ConfigSet(t.Context(), "maxmemory", "1").Err())
	w.produce(1000, 2000)
	w.eventually(func() bool { return w.destination.Meter.Refused.Load() > 0 }, "nothing was refused")
	up, _, err := w.destination.Health.State()
	require.False(t, up)
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, 1000, w.count())
	require.NoError(t, w.there.ConfigSet(t.Context(), "maxmemory", "0").Err())
	w.settled(2000)
	stop()
	all, _ := w.arrived()
	slices.Sort(all)
	require.Equal(t, span(0, 2000), all, "each message once")
}

func TestAKeyThatIsNoStreamHoldsTheLaneUntilItIsGone(t *testing.T) {
	w := newWorld(t, brokers.Redis(t, "a").Address(), brokers.Redis(t, "b").Address())
	require.NoError(t, w.there.Set(t.Context(), w.out, "text", 0).Err())
	w.produce(0, 100)
	stop := w.relay()
	w.eventually(func() bool { return w.destination.Meter.Refused.Load() > 0 }, "nothing was refused")
	require.NoError(t, w.there.Del(t.Context(), w.out).Err())
	w.settled(100)
	stop()
	all, _ := w.arrived()
	slices.Sort(all)
	require.Equal(t, span(0, 100), all)
}

func TestAMessageOverTheServersLimitFailsAloneAndForGood(t *testing.T) {
	destination := brokers.RedisOwn(t, "--proto-max-bulk-len", "2mb")
	for name, known := range map[string]bool{"a limit that is known": true, "a limit that was lowered since": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, destination.Address(), destination.Address())
			p := w.publisher()
			require.NoError(t, p.Publish(w.out, message.NewMessage("a", []byte("1"))))
			if !known {
				require.NoError(t, w.there.ConfigSet(t.Context(), "proto-max-bulk-len", "1048576").Err())
			}
			size := 3 << 20
			if !known {
				size = 1<<20 + 1<<19
			}
			result := make(chan error)
			go func() { result <- p.Publish(w.out, message.NewMessage("big", make([]byte, size))) }()
			select {
			case err := <-result:
				require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err), "%v", err)
			case <-time.After(patience):
				require.FailNow(t, "Publish does not return")
			}
			require.NoError(t, p.Publish(w.out, message.NewMessage("b", []byte("2"))))
			require.Equal(t, 2, w.count())
			if known {
				require.Zero(t, w.destination.Meter.Reconnects.Load(), "it was sent")
			}
		})
	}
}

func TestOneMessageTooLargeAmongManyLeavesTheOthersAlone(t *testing.T) {
	destination := brokers.RedisOwn(t)
	w := newWorld(t, destination.Address(), destination.Address())
	p := w.publisher()
	require.NoError(t, p.Publish(w.out, message.NewMessage("first", []byte("0"))))
	require.NoError(t, w.there.ConfigSet(t.Context(), "proto-max-bulk-len", "1048576").Err())
	results := make(chan error, 101)
	for i := range 101 {
		payload := "1"
		if i == 50 {
			payload = strings.Repeat("x", 2<<20)
		}
		go func() {
			for {
				err := p.Publish(w.out, message.NewMessage("id", []byte(payload)))
				if handlers.ClassOf(err) != handlers.ClassUnavailable {
					results <- err
					return
				}
			}
		}()
	}
	permanent := 0
	for range 101 {
		select {
		case err := <-results:
			if err != nil {
				require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err), "%v", err)
				permanent++
			}
		case <-time.After(patience):
			require.FailNow(t, "Publish does not return")
		}
	}
	require.Equal(t, 1, permanent)
	require.GreaterOrEqual(t, w.count(), 101)
}

func TestReplicasThatAreMissingHoldTheConfirmAndNothingIsSentTwice(t *testing.T) {
	primary, other := brokers.RedisOwn(t), brokers.RedisOwn(t)
	w := newWorld(t, brokers.Redis(t, "a").Address(), primary.Address())
	w.destOwn.WaitReplicas, w.destOwn.WaitTimeout = 1, config.Duration(50*time.Millisecond)
	w.produce(0, 500)
	stop := w.relay()
	w.eventually(func() bool { up, _, err := w.destination.Health.State(); return !up && err != nil }, "nobody missed the replica")
	require.Zero(t, w.source.Meter.Committed.Load(), "acked what no replica has")
	require.Positive(t, w.count())
	host, port, _ := strings.Cut(primary.Address(), ":")
	replica := redis.NewClient(&redis.Options{Addr: other.Address()})
	defer replica.Close()
	require.NoError(t, replica.ReplicaOf(t.Context(), host, port).Err())
	w.settled(500)
	stop()
	all, _ := w.arrived()
	require.Equal(t, span(0, 500), all)
}

func TestAServerThatCannotConfirmAsAskedIsNotWrittenTo(t *testing.T) {
	server := brokers.RedisOwn(t)
	w := newWorld(t, server.Address(), server.Address())
	w.destOwn.WaitAOF = true
	p := w.publisher()
	err := p.Publish(w.out, message.NewMessage("a", []byte("1")))
	version := w.there.Info(t.Context(), "server").Val()
	if err == nil {
		require.NotContains(t, version, "redis_version:7.0.")
		return
	}
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, "wait_aof needs Redis 7.2")
	require.Zero(t, w.count())
}
