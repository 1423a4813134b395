package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// Connection is one RabbitMQ. Each route's subscriber and publisher has an AMQP connection of its own, since RabbitMQ slows down and blocks connections
// as a whole. Safe for concurrent use.
type Connection struct {
	config   Config
	settings handlers.Settings
	next     atomic.Uint32 // Which address is tried first: the one that answered last.
}

// Open connects once, to see that it can be done. It fails with an unavailable error when none of the addresses answers before ctx ends.
func Open(ctx context.Context, c Config, s handlers.Settings) (handlers.Connection[SourceConfig, DestinationConfig], error) {
	conn := &Connection{config: c, settings: s}
	first, err := conn.dial(ctx, "check", nil)
	if err != nil {
		return nil, handlers.Unavailable(err)
	}
	if err := first.Close(); err != nil {
		return nil, handlers.Unavailable(err)
	}
	if c.Client == Watermill {
		return &stockConnection{Connection: conn, resend: stockResend}, nil
	}
	return conn, nil
}

// wrap puts something of one's own between the network and the AMQP client; nil leaves it out.
type wrap func(net.Conn) net.Conn

// dial opens a connection to the first address that answers. What names its use in RabbitMQ's own lists.
func (c *Connection) dial(ctx context.Context, what string, w wrap) (conn *amqp.Connection, err error) {
	err = c.each(func(u config.URL) error {
		conn, err = c.dialOne(ctx, u, what, w)
		return err
	})
	return conn, err
}

// each tries one address after the other until one answers.
func (c *Connection) each(try func(config.URL) error) error {
	var errs []error
	n := uint32(len(c.config.URL))
	first := c.next.Load()
	for i := range n {
		at := (first + i) % n
		err := try(c.config.URL[at])
		if err == nil {
			c.next.Store(at)
			return nil
		}
		errs = append(errs, fmt.Errorf("connect to rabbitmq at %s: %w", c.config.URL[at], err))
	}
	return errors.Join(errs...)
}

func (c *Connection) dialOne(ctx context.Context, u config.URL, what string, w wrap) (*amqp.Connection, error) {
	timeout := time.Duration(c.config.DialTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.network(ctx, u)
	if err != nil {
		return nil, err
	}
	// The handshake looks at no context.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	outer := conn
	if w != nil {
		outer = w(conn)
	}
	opened, err := amqp.Open(outer, c.handshake(u, what))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = outer.Close()
		_ = conn.Close()
		return nil, err
	}
	return opened, nil
}

// network connects, and encrypts what is to be.
func (c *Connection) network(ctx context.Context, u config.URL) (net.Conn, error) {
	host, address := config.SplitAddress(u.Host, port(u))
	dialer := net.Dialer{}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil || u.Scheme == "amqp" {
		return conn, err
	}
	var t config.TLS
	if c.config.TLS != nil {
		t = *c.config.TLS
	}
	settings, err := t.Client(host)
	if err == nil {
		encrypted := tls.Client(conn, settings)
		if err = encrypted.HandshakeContext(ctx); err == nil {
			return encrypted, nil
		}
	}
	_ = conn.Close()
	return nil, err
}

// port is that of a URL which names none.
func port(u config.URL) string {
	if u.Scheme == "amqps" {
		return "5671"
	}
	return "5672"
}

func (c *Connection) handshake(u config.URL, what string) amqp.Config {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(fmt.Sprintf("mqferry %s: %s", c.settings.Instance, what))
	username, password := c.credentials(u)
	vhost := u.Path
	if vhost == "" {
		vhost = "/"
	}
	return amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: username, Password: password}},
		Vhost: vhost, Heartbeat: time.Duration(c.config.Heartbeat), Properties: properties, Locale: "en_US",
	}
}

func (c *Connection) credentials(u config.URL) (username, password string) {
	username, password = u.Username, u.Password.Reveal()
	if username == "" && password == "" {
		username, password = "guest", "guest"
	}
	if c.config.Username != "" {
		username = c.config.Username
	}
	if c.config.Password != "" {
		password = c.config.Password.Reveal()
	}
	return username, password
}

// Subscriber makes the subscriber of one queue. It connects when it is subscribed.
func (c *Connection) Subscriber(s handlers.Source, o SourceConfig) (message.Subscriber, error) {
	return handlers.NewSubscriber(s, newReader(c, s, o), commitInterval), nil
}

// Publisher makes the publisher of one route. It connects at once, and again whenever the connection is gone, until it is closed.
func (c *Connection) Publisher(d handlers.Destination, o DestinationConfig) (message.Publisher, error) {
	return newPublisher(c, d, o), nil
}

// Close does nothing: whatever is open belongs to a subscriber or a publisher.
func (c *Connection) Close() error { return nil }
