package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// adminTimeout bounds one question to the cluster.
const adminTimeout = 10 * time.Second

// commitInterval is how often acks go to the source while the window has room.
const commitInterval = 100 * time.Millisecond

// Connection is one Kafka cluster. It holds a client for questions (what exists, what are its limits); each route's
// subscriber and publisher has a client of its own, so that no route waits for another. Safe for concurrent use.
type Connection struct {
	config   Config
	settings handlers.Settings
	hooks    *hooks // Of the client.
	client   *kgo.Client
	admin    *kadm.Client
}

// Open connects to a cluster. It fails with an unavailable error when none of the brokers answers before ctx ends.
func Open(ctx context.Context, c Config, s handlers.Settings) (handlers.Connection[SourceConfig, DestinationConfig], error) {
	conn := &Connection{config: c, settings: s, hooks: &hooks{config: c, meter: &handlers.Meter{}}}
	client, err := conn.dial(kgo.WithHooks(conn.hooks), kgo.RetryTimeout(adminTimeout))
	if err != nil {
		return nil, fmt.Errorf("kafka client for %s: %w", s.DataCenter, err)
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, handlers.Unavailable(fmt.Errorf("connect to kafka at %v: %w", c.Brokers, conn.hooks.why(err)))
	}
	conn.client, conn.admin = client, kadm.NewClient(client)
	return conn, nil
}

// dial makes a client with what all clients of the cluster share. It does not connect yet.
func (c *Connection) dial(options ...kgo.Opt) (*kgo.Client, error) {
	backoff := lane.Backoff{Initial: 100 * time.Millisecond, Max: 5 * time.Second}
	shared := []kgo.Opt{
		kgo.SeedBrokers(c.config.Brokers...),
		kgo.ClientID(c.config.ClientID),
		kgo.DialTimeout(time.Duration(c.config.DialTimeout)),
		kgo.RetryBackoffFn(backoff.After),
		kgo.MetadataMinAge(500 * time.Millisecond),
		kgo.ConnIdleTimeout(5 * time.Minute),
		kgo.DisableClientMetrics(),
	}
	if c.config.TLS != nil {
		shared = append(shared, kgo.Dialer(c.config.dialTLS))
	}
	if c.config.SASL != nil {
		shared = append(shared, kgo.SASL(c.config.SASL.mechanism()))
	}
	return kgo.NewClient(append(shared, options...)...)
}

// Subscriber makes the subscriber of one route: a member of source.Group. It connects when it is subscribed.
func (c *Connection) Subscriber(source handlers.Source, o SourceConfig) (message.Subscriber, error) {
	source.Logger = orSilent(source.Logger)
	if c.config.Client == Watermill {
		return newStockSubscriber(c, source, o), nil
	}
	return handlers.NewSubscriber(source, newReader(c, source, o), commitInterval), nil
}

// Publisher makes the publisher of one route, with a producer of its own.
func (c *Connection) Publisher(destination handlers.Destination, o DestinationConfig) (message.Publisher, error) {
	destination.Logger = orSilent(destination.Logger)
	if c.config.Client == Watermill {
		return newStockPublisher(c, destination, o)
	}
	return newPublisher(c, destination, o)
}

func orSilent(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// Close ends the client for questions. Questions under way fail.
func (c *Connection) Close() error {
	c.client.Close()
	return nil
}

// Partitions counts the partitions of topic. It fails when there is no such topic.
func (c *Connection) Partitions(ctx context.Context, topic string) (int, error) {
	detail, err := c.topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	return detail.partitions, nil
}

// errNoTopic is what topic returns, wrapped, when the cluster answers that there is none.
var errNoTopic = errors.New("no such topic")

// found is what a cluster says of a topic.
type found struct {
	id         kadm.TopicID
	partitions int
}

// topic asks the cluster for a topic. It asks anew each time: kadm would answer from what it heard a moment ago.
func (c *Connection) topic(ctx context.Context, name string) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &name
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(ctx, c.client)
	if err != nil {
		return found{}, handlers.Unavailable(fmt.Errorf("look up topic %q: %w", name, c.hooks.explain(err)))
	}
	if len(response.Topics) == 0 {
		return found{}, handlers.Unroutable(fmt.Errorf("topic %q: %w", name, errNoTopic))
	}
	t := response.Topics[0]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case isMissing(err):
		return found{}, handlers.Unroutable(fmt.Errorf("topic %q: %w", name, errNoTopic))
	case errors.Is(err, kerr.InvalidTopicException):
		return found{}, handlers.Permanent(fmt.Errorf("look up topic %q: %w", name, err))
	case err != nil:
		return found{}, handlers.Unavailable(fmt.Errorf("look up topic %q: %w", name, err))
	case len(t.Partitions) == 0:
		return found{}, handlers.Unavailable(fmt.Errorf("topic %q has no partitions yet", name))
	}
	return found{id: t.TopicID, partitions: len(t.Partitions)}, nil
}

// topicOrNew is topic, which is made if it is missing and the configuration says so.
func (c *Connection) topicOrNew(ctx context.Context, name string, o DestinationConfig) (found, error) {
	detail, err := c.topic(ctx, name)
	if errors.Is(err, errNoTopic) && o.Create {
		return c.create(ctx, name, o)
	}
	return detail, err
}

// create makes a topic and waits until it is there.
func (c *Connection) create(ctx context.Context, name string, o DestinationConfig) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	configs := make(map[string]*string, len(o.TopicConfig))
	for key, value := range o.TopicConfig {
		configs[key] = &value
	}
	made, err := c.admin.CreateTopic(ctx, o.Partitions, o.ReplicationFactor, configs, name)
	if err == nil {
		err = made.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return found{}, createError(name, made.ErrMessage, c.hooks.explain(err))
	}
	for {
		detail, err := c.topic(ctx, name)
		if err == nil {
			return detail, nil
		}
		select {
		case <-ctx.Done():
			return found{}, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// createError is the error of a topic that was not made: one that cannot be with this name, or with this configuration, or for another reason.
func createError(name, says string, err error) error {
	text := fmt.Errorf("create topic %q: %w", name, err)
	if says != "" {
		text = fmt.Errorf("%w: %s", text, says)
	}
	switch {
	case errors.Is(err, kerr.InvalidTopicException):
		return handlers.Permanent(text)
	case errors.Is(err, kerr.InvalidConfig), errors.Is(err, kerr.InvalidPartitions), errors.Is(err, kerr.InvalidReplicationFactor),
		errors.Is(err, kerr.PolicyViolation), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return handlers.Unroutable(text)
	}
	return handlers.Unavailable(text)
}
