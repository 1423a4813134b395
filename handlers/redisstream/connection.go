package redisstream

import (
	"context"
	"fmt"
	"net"
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
	client   *redis.Client
	interval time.Duration // Between the pings of an idle publisher.
}

// Open connects to the server and asks for a sign of life. It fails with an unavailable error when none comes.
func Open(ctx context.Context, c Config, s handlers.Settings) (handlers.Connection[SourceConfig, DestinationConfig], error) {
	logging.Disable() // It is one for the process, and repeats on stderr the errors that come back to us anyway.
	conn := &connection{config: c, settings: s, interval: pingInterval}
	conn.client = redis.NewClient(conn.options(2))
	if err := conn.client.Ping(ctx).Err(); err != nil {
		_ = conn.client.Close()
		return nil, handlers.Unavailable(fmt.Errorf("connect to redis at %s: %w", c.Address, err))
	}
	return conn, nil
}

// options are those of a client with so many sockets. A client never repeats a command by itself: what was stored twice, and in which
// order, must be ours to know.
func (c *connection) options(sockets int) *redis.Options {
	return &redis.Options{
		Addr: c.config.Address, Username: c.config.Username, Password: c.config.Password.Reveal(), DB: c.config.DB,
		Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: sockets,
		Dialer:      c.dial,
		DialTimeout: time.Duration(c.config.DialTimeout), ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		ContextTimeoutEnabled: true,
	}
}

func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Duration(c.config.DialTimeout), KeepAlive: keepAlive}
	return d.DialContext(ctx, network, address)
}

// pipelined opens a socket for the pipelined publisher: what is written to raw is answered, in order, through the connection's Receive.
func (c *connection) pipelined(ctx context.Context) (conn redigo.Conn, raw net.Conn, err error) {
	conn, err = redigo.DialContext(
		ctx, "tcp", c.config.Address,
		redigo.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled, err := c.dial(ctx, network, address)
			raw = dialled
			return dialled, err
		}),
		redigo.DialReadTimeout(answerTimeout), redigo.DialWriteTimeout(answerTimeout),
		redigo.DialUsername(c.config.Username), redigo.DialPassword(c.config.Password.Reveal()),
		redigo.DialDatabase(c.config.DB),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to redis at %s: %w", c.config.Address, err)
	}
	return conn, raw, nil
}

// Subscriber makes the subscriber of one stream.
func (c *connection) Subscriber(s handlers.Source, o SourceConfig) (message.Subscriber, error) {
	return handlers.NewSubscriber(s, newReader(c, s, o), commitInterval), nil
}

// Publisher makes a publisher. Its sockets are opened when there is something to send; while there is nothing, it asks the server for a sign
// of life every 10 s.
func (c *connection) Publisher(d handlers.Destination, o DestinationConfig) (message.Publisher, error) {
	p := newPublisher(c, d, o)
	p.ends.Go(p.watch)
	return p, nil
}

// Close ends what the connection holds for all routes.
func (c *connection) Close() error { return c.client.Close() }
