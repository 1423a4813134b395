package rabbitmq

import (
	"errors"
	"slices"
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/record"
)

// Client says what reads and writes the queues.
type Client string

// The clients.
const (
	// Pipelined is our own: many messages on the wire.
	Pipelined Client = "pipelined"
	// Watermill is the stock package watermill-amqp: one message at a time.
	Watermill Client = "watermill"
)

// Config is what a user may write about a RabbitMQ.
type Config struct {
	// URL are the addresses of the nodes, each amqp://user:password@host:port/vhost, or amqps:// for TLS; one is used after the other until one answers. At least
	// one is needed. The port is 5672 by default, 5671 with TLS; the virtual host "/"; user and password "guest".
	URL []config.URL `yaml:"url"`
	// Username and Password take the place of those in the URLs.
	Username string        `yaml:"username"`
	Password config.Secret `yaml:"password"`
	// TLS says whom to trust, for amqps:// only.
	TLS *config.TLS `yaml:"tls"`
	// Client is pipelined, the default, or watermill: the stock package, one message at a time.
	Client Client `yaml:"client"`
	// Heartbeat is how often both sides give a sign of life; a connection is given up after two are missed. 10s by default, at least 1s.
	Heartbeat config.Duration `yaml:"heartbeat"`
	// DialTimeout bounds one attempt to connect, the handshakes included; 10s by default.
	DialTimeout config.Duration `yaml:"dial_timeout"`
}

// QueueType is the kind of a queue that is created.
type QueueType string

// The kinds. The empty one is the virtual host's default.
const (
	Classic QueueType = "classic"
	Quorum  QueueType = "quorum"
)

// SourceConfig is what a user may write about a queue that messages are fetched from. Instead of a topic, the queue's name, there may be an exchange.
type SourceConfig struct {
	// Exchange is read through a durable queue of the route's own, which is named like the group and is made and bound when it is missing.
	Exchange string `yaml:"exchange"`
	// RoutingKey are the keys that the queue is bound with; "#" by default.
	RoutingKey []string `yaml:"routing_key"`
	// Exclusive lets one instance consume at a time, so that order is kept: another stands by and takes over. True by default.
	Exclusive bool `yaml:"exclusive"`
	// QueueType and QueueArguments are for the creation of the route's own queue.
	QueueType      QueueType      `yaml:"queue_type"`
	QueueArguments map[string]any `yaml:"queue_arguments"`
}

// DestinationConfig is what a user may write about a place that messages are delivered to: a queue, the topic, or an exchange instead of it.
type DestinationConfig struct {
	// Exchange takes the messages instead of a queue.
	Exchange string `yaml:"exchange"`
	// RoutingKey is filled for each message that goes to the exchange; "{routing_key}" by default: the one that the message had at its source.
	RoutingKey *record.Template `yaml:"routing_key"`
	// Create makes a queue, or an exchange, that does not exist; true by default. What exists is never changed.
	Create bool `yaml:"create"`
	// QueueType and QueueArguments are for the creation of a queue.
	QueueType      QueueType      `yaml:"queue_type"`
	QueueArguments map[string]any `yaml:"queue_arguments"`
	// ExchangeType is for the creation of an exchange: direct, fanout, topic or headers; topic by default.
	ExchangeType string `yaml:"exchange_type"`
	// Channels is over how many channels the lanes are spread; a lane is always on the same one. 4 by default.
	Channels int `yaml:"channels"`
	// ConfirmTimeout is how long RabbitMQ may confirm nothing while messages wait for it; then the channel is closed and they are sent again. 30s by
	// default. It does not run while RabbitMQ says that it is blocked.
	ConfirmTimeout config.Duration `yaml:"confirm_timeout"`
}

// DefaultConfig returns what applies where a file says nothing.
func DefaultConfig() (Config, SourceConfig, DestinationConfig) {
	return Config{Heartbeat: config.Duration(10 * time.Second), DialTimeout: config.Duration(10 * time.Second), Client: Pipelined},
		SourceConfig{Exclusive: true},
		DestinationConfig{
			Create: true, ExchangeType: "topic", Channels: 4, ConfirmTimeout: config.Duration(30 * time.Second),
		}
}

// Validate reports what no RabbitMQ could be reached with.
func (c Config) Validate() error {
	var errs []error
	if len(c.URL) == 0 {
		errs = append(errs, config.Invalid("url", `is missing; write for example "amqp://guest:guest@127.0.0.1:5672/"`))
	}
	for _, u := range c.URL {
		errs = append(errs, u.Check(config.Scheme{
			Plain: "amqp", Encrypted: "amqps", Options: "heartbeat, dial_timeout and tls",
			Example: "amqp://user:password@127.0.0.1:5672/", Port: port(u),
		}, c.TLS != nil))
	}
	if c.Client != Pipelined && c.Client != Watermill {
		errs = append(errs, config.Invalid("client", "%q is not one of pipelined, watermill", string(c.Client)))
	}
	if c.Heartbeat < config.Duration(time.Second) || c.Heartbeat > config.Duration(10*time.Minute) {
		errs = append(errs, config.Invalid("heartbeat", "%s is not between 1s and 10m", c.Heartbeat))
	}
	if c.DialTimeout <= 0 {
		errs = append(errs, config.Invalid("dial_timeout", "must be more than 0"))
	}
	return errors.Join(errs...)
}

// Validate reports words that are not in their lists, and options that do not go together.
func (c SourceConfig) Validate() error {
	var errs []error
	if c.Exchange == "" {
		errs = append(errs, needs("routing_key", len(c.RoutingKey) > 0, "an exchange"),
			needs("queue_type", c.QueueType != "", "an exchange: a queue that is read is never made"),
			needs("queue_arguments", len(c.QueueArguments) > 0, "an exchange: a queue that is read is never made"))
	}
	_, err := parseArguments(c.QueueType, c.QueueArguments)
	return errors.Join(append(errs, c.QueueType.check(), err)...)
}

// Validate is the same for a destination.
func (c DestinationConfig) Validate() error {
	_, err := parseArguments(c.QueueType, c.QueueArguments)
	errs := []error{c.QueueType.check(), err}
	if c.Exchange == "" {
		errs = append(errs, needs("routing_key", c.RoutingKey != nil, "an exchange; a queue has the topic's name as its routing key"))
	} else {
		errs = append(errs, needs("queue_type", c.QueueType != "", "a topic instead of an exchange"),
			needs("queue_arguments", len(c.QueueArguments) > 0, "a topic instead of an exchange"))
	}
	if !slices.Contains([]string{"direct", "fanout", "topic", "headers"}, c.ExchangeType) {
		errs = append(errs, config.Invalid("exchange_type", "%q is not one of direct, fanout, topic, headers", c.ExchangeType))
	}
	if c.Channels < 1 || c.Channels > 64 {
		errs = append(errs, config.Invalid("channels", "%d is not between 1 and 64", c.Channels))
	}
	if c.ConfirmTimeout < config.Duration(time.Second) {
		errs = append(errs, config.Invalid("confirm_timeout", `%s is less than 1s; write for example "30s"`, c.ConfirmTimeout))
	}
	return errors.Join(errs...)
}

func needs(field string, set bool, what string) error {
	if !set {
		return nil
	}
	return config.Invalid(field, "needs %s", what)
}

func (q QueueType) check() error {
	switch q {
	case "", Classic, Quorum:
		return nil
	case "stream":
		return config.Invalid("queue_type", "stream is not supported: a stream is not acked message by message; write classic or quorum")
	}
	return config.Invalid("queue_type", "%q is not one of classic, quorum", string(q))
}

// CheckDestination reports a destination with two places, and options that the stock client cannot honour.
func (c Config) CheckDestination(d config.Destination, o DestinationConfig) error {
	if o.Exchange != "" && d.Topic != "" && d.Topic != o.Exchange { // The router calls the exchange the topic once it has read the file.
		return config.Invalid("exchange", "%q stands beside the topic %q: a message goes to the one or to the other", o.Exchange, d.Topic)
	}
	return c.checkStockDestination(o)
}

// Place names the route's own queue at an exchange.
func (c SourceConfig) Place(group string) string {
	if c.Exchange == "" {
		return ""
	}
	return group
}

// Place names the exchange.
func (c DestinationConfig) Place(string) string { return c.Exchange }
