package redisstream_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokers.Suite(m)) }

func TestRedisKeepsEveryPromise(t *testing.T) {
	server := brokers.RedisOwn(t, "--appendfsync", "always")
	promises := everything()
	promises.Outage = func(t *testing.T) func() {
		server.Kill(t)
		return func() { server.Start(t) }
	}
	conformance(t, server.Address(), promises, goleak.IgnoreAnyFunction("github.com/mqferry/mqferry/integration/process.(*Process).run"))
}

func TestMiniredisKeepsEveryPromise(t *testing.T) {
	server := miniredis.RunT(t)
	promises := everything()
	promises.Outage = func(t *testing.T) func() {
		server.SetError("LOADING the server is away")
		return func() { server.SetError("") }
	}
	conformance(t, server.Addr(), promises)
}

func everything() brokertest.Promises {
	return brokertest.Promises{Keys: true, Nulls: true, HeaderOrder: true, HeaderNulls: true, Time: time.Nanosecond}
}

func conformance(t *testing.T, address string, p brokertest.Promises, background ...goleak.Option) {
	t.Helper()
	_, source, destination := redisstream.DefaultConfig()
	s := suite(address, source, destination, p)
	s.Background = background
	brokertest.Run(t, s)
}

func suite(address string, source redisstream.SourceConfig, destination redisstream.DestinationConfig, p brokertest.Promises) brokertest.Suite {
	return brokertest.Suite{
		Open: func(t *testing.T) handlers.Conn {
			t.Helper()
			return open(t, address, "test")
		},
		Source: source, Destination: destination, Promises: p,
	}
}
