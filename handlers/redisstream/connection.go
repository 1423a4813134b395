package redisstream

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mqferry/mqferry/handlers"
)

const (
	// answerTimeout is how long the server may take for anything that does not block.
	answerTimeout = 5 * time.Second
	// keepAlive finds a peer that is gone while a connection is idle.
	keepAlive = 15 * time.Second
	// commitInterval is the longest that settled messages wait for their XACK while the window has room.
	commitInterval = 100 * time.Millisecond
	// pingInterval is how often a destination is asked for a sign of life while there is nothing to send.
	pingInterval = 10 * time.Second
)

// connection is one Redis. Every subscriber and publisher has sockets of its own: a blocked read must not hold up another route.
type connection struct {
	config   Config
	settings handlers.Settings
	servers  []server
	first    atomic.Int64 // The server to try first: the one that answered last.
	client   *redis.Client
	interval time.Duration // Between the pings of an idle publisher.
	resend   time.Duration // Before the stock subscriber emits a nacked message again.
}

// Open connects to a server, once each, and asks for a sign of life. It fails with an unavailable error when none comes.
func Open(ctx context.Context, c Config, s handlers.Settings) (handlers.Connection[SourceConfig, DestinationConfig], error) {
	logging.Disable() // It is one for the process, and repeats on stderr the errors that come back to us anyway.
	conn := &connection{config: c, settings: s, servers: c.servers(), interval: pingInterval, resend: stockResend}
	first, err := conn.dial(ctx)
	if err != nil {
		return nil, handlers.Unavailable(err)
	}
	_ = first.Close()
	conn.client = redis.NewClient(conn.options(2))
	return conn, nil
}

// options are those of a client with so many sockets. A client never repeats a command by itself: what was stored twice, and in which
// order, must be ours to know. It enters no server either: dial does.
func (c *connection) options(sockets int) *redis.Options {
	return &redis.Options{
		Addr:     c.servers[0].address,
		Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: sockets,
		Dialer:      c.dialAny,
		DialTimeout: time.Duration(len(c.servers)) * time.Duration(c.config.DialTimeout),
		ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		ContextTimeoutEnabled: true,
	}
}

// dialAny is dial for clients that believe they know where to.
func (c *connection) dialAny(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }

// pipelined opens a socket for the pipelined publisher: what is written to raw is answered, in order, through the connection's Receive.
func (c *connection) pipelined(ctx context.Context) (conn redigo.Conn, raw net.Conn, err error) {
	raw, err = c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	return redigo.NewConn(raw, answerTimeout, answerTimeout), raw, nil
}

// Subscriber makes the subscriber of one stream.
func (c *connection) Subscriber(s handlers.Source, o SourceConfig) (message.Subscriber, error) {
	if c.config.Client == Watermill {
		return newStockSubscriber(c, s, o), nil
	}
	return handlers.NewSubscriber(s, newReader(c, s, o), commitInterval), nil
}

// Publisher makes a publisher. Its sockets are opened when there is something to send; while there is nothing, it asks the server for a sign
// of life every 10 s.
func (c *connection) Publisher(d handlers.Destination, o DestinationConfig) (message.Publisher, error) {
	if c.config.Client == Watermill {
		return newStockPublisher(c, d, o)
	}
	p := newPublisher(c, d, o)
	p.ends.Go(func() { c.watch(p.ctx, d.Health, p.idle) })
	return p, nil
}

// Close ends what the connection holds for all routes.
func (c *connection) Close() error { return c.client.Close() }
