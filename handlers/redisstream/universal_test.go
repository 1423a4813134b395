package redisstream_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
)

// universal prepares Watermill's own suite on a real Redis.
func universal(t *testing.T, client redisstream.Client, window int) brokertest.PubSub {
	t.Helper()
	address := brokers.Redis(t, "a").Address()
	_, source, destination := redisstream.DefaultConfig()
	source.ClaimIdle = config.Duration(2 * time.Second) // The suite closes subscribers in the middle of a message, and waits for it at another one.
	var opened atomic.Int64
	return brokertest.PubSub{
		Open: func(t *testing.T) handlers.Conn {
			t.Helper()
			instance := "suite-" + strconv.FormatInt(opened.Add(1), 10)
			conn := open(t, address, instance, func(c *redisstream.Config) { c.Client = client })
			redisstream.SetResend(conn.Unwrap(), time.Millisecond)
			return conn
		},
		Source: source, Destination: destination, Window: window,
	}
}

func TestWatermillsSuiteInOrder(t *testing.T) {
	universal(t, redisstream.Pipelined, 1).Run(t, tests.Features{ConsumerGroups: true, GuaranteedOrder: true, Persistent: true, ForceShort: testing.Short()})
}

func TestWatermillsSuiteAtFullWidth(t *testing.T) {
	universal(t, redisstream.Pipelined, 0).Run(t, tests.Features{ConsumerGroups: true, Persistent: true, ForceShort: testing.Short()})
}

// The stock subscriber keeps the order as long as one of them reads: several share a stream.
func TestWatermillsSuiteOnTheStockPubSub(t *testing.T) {
	universal(t, redisstream.Watermill, 1).Run(t, tests.Features{
		ConsumerGroups: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, Persistent: true, ForceShort: testing.Short(),
	})
}
