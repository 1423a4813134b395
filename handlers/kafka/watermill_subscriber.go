package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	stock "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// stockSubscriber is the subscriber of watermill-kafka, made again, after a pause, when its consumer group fails. It emits one message of each partition
// at a time, with its record and without a ticket.
type stockSubscriber struct {
	conn   *Connection
	source handlers.Source
	config SourceConfig
	ended  chan struct{} // Nothing runs any more.

	mu         sync.Mutex
	subscribed bool
	stop       context.CancelFunc
}

func newStockSubscriber(c *Connection, source handlers.Source, o SourceConfig) *stockSubscriber {
	return &stockSubscriber{conn: c, source: source, config: o, ended: make(chan struct{}), stop: func() {}}
}

// settings are the safe ones: from the oldest message, unless the route begins at the latest, and nothing of a transaction that was aborted.
func (s *stockSubscriber) settings() *sarama.Config {
	c := stock.DefaultSaramaSubscriberConfig()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	if s.source.Start.Latest {
		c.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	c.Consumer.MaxWaitTime = time.Duration(s.config.FetchMaxWait)
	session := time.Duration(s.config.SessionTimeout)
	c.Consumer.Group.Session.Timeout = session
	c.Consumer.Group.Heartbeat.Interval = min(session/3, time.Second)
	return c
}

// Subscribe returns the channel of messages at once, and connects for as long as it takes. The end of ctx stops the intake as Close does.
func (s *stockSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		return nil, handlers.ErrSubscribed
	}
	s.subscribed = true
	ctx, s.stop = context.WithCancel(ctx)
	out := make(chan *message.Message)
	go s.run(ctx, out)
	return out, nil
}

func (s *stockSubscriber) run(ctx context.Context, out chan<- *message.Message) {
	defer close(s.ended)
	var last *stock.Subscriber
	handlers.Again(ctx, lane.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second}, func() bool {
		inner, err := s.once(ctx, out)
		if ctx.Err() != nil {
			last = inner
			return true
		}
		s.source.Health.Down(s.conn.config.stockError(err))
		s.source.Meter.Reconnects.Add(1)
		if inner != nil {
			_ = inner.Close() // It has told what was wrong.
		}
		return false
	})
	close(out)
	if last != nil {
		_ = last.Close()
	}
}

// once emits what the stock subscriber emits, until it fails or ctx ends. The caller closes it.
func (s *stockSubscriber) once(ctx context.Context, out chan<- *message.Message) (*stock.Subscriber, error) {
	failed := make(chan error, 1)
	aboard := &passengers{dataCenter: s.source.DataCenter}
	inner, err := stock.NewSubscriber(stock.SubscriberConfig{
		Brokers: s.conn.config.Brokers, Unmarshaler: aboard, OverwriteSaramaConfig: s.conn.config.sarama(s.settings()),
		ConsumerGroup: s.source.Group, NackResendSleep: stockResend, ReconnectRetrySleep: stockResend, Tracer: sessions{s.source},
	}, stockLogger{logger: s.source.Logger, failed: failed})
	if err != nil {
		return nil, err
	}
	messages, err := inner.Subscribe(ctx, s.source.Topic)
	if err != nil {
		return inner, fmt.Errorf("subscribe to %s: %w", s.source.Topic, err)
	}
	for {
		select {
		case <-ctx.Done():
			return inner, nil
		case err := <-failed:
			return inner, err
		case msg, open := <-messages:
			if !open {
				return inner, errors.New("the stock subscriber ended by itself")
			}
			if !aboard.board(msg) {
				msg.Nack()
				continue
			}
			s.source.Meter.Fetched.Add(1)
			select {
			case out <- msg:
			case <-ctx.Done():
				return inner, nil
			}
		}
	}
}

// Close stops the intake. What is in flight and not yet acked comes again: the stock subscriber does not wait for it.
func (s *stockSubscriber) Close() error {
	s.mu.Lock()
	if !s.subscribed {
		s.subscribed = true
		close(s.ended)
	}
	s.mu.Unlock()
	s.stop()
	select {
	case <-s.ended:
	case <-time.After(stockPatience):
	}
	return nil
}

// sessions sees the consumer group's sessions begin and its messages acked. It is in the place of the stock package's tracer.
type sessions struct{ source handlers.Source }

func (sessions) WrapConsumer(c sarama.Consumer) sarama.Consumer { return c }

func (sessions) WrapPartitionConsumer(c sarama.PartitionConsumer) sarama.PartitionConsumer { return c }

func (sessions) WrapSyncProducer(_ *sarama.Config, p sarama.SyncProducer) sarama.SyncProducer {
	return p
}

func (s sessions) WrapConsumerGroupHandler(h sarama.ConsumerGroupHandler) sarama.ConsumerGroupHandler {
	return sessionHandler{h, s.source}
}

type sessionHandler struct {
	sarama.ConsumerGroupHandler
	source handlers.Source
}

func (h sessionHandler) Setup(session sarama.ConsumerGroupSession) error {
	h.source.Health.Up()
	return h.ConsumerGroupHandler.Setup(session)
}

func (h sessionHandler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	return h.ConsumerGroupHandler.ConsumeClaim(marks{session, h.source.Meter}, claim)
}

type marks struct {
	sarama.ConsumerGroupSession
	meter *handlers.Meter
}

func (m marks) MarkMessage(msg *sarama.ConsumerMessage, metadata string) {
	m.ConsumerGroupSession.MarkMessage(msg, metadata)
	m.meter.Committed.Add(1)
}

// stockLogger hears what the stock package says. Its errors end the subscriber, whose caller tells of them; what it says about single messages, and that
// is the rest of it below the level of information, is dropped.
type stockLogger struct {
	logger *slog.Logger
	failed chan<- error // May be nil.
}

func (l stockLogger) Error(msg string, err error, fields watermill.LogFields) {
	if errors.Is(err, context.Canceled) {
		return
	}
	l.logger.Debug("watermill-kafka: "+msg, "error", err, "topic", fields["topic"])
	var background *sarama.ConsumerError
	if l.failed == nil || errors.As(err, &background) {
		return
	}
	select {
	case l.failed <- err:
	default:
	}
}

func (l stockLogger) Info(msg string, fields watermill.LogFields) {
	l.logger.Debug("watermill-kafka: "+msg, "topic", fields["topic"])
}

func (stockLogger) Debug(string, watermill.LogFields) {}
func (stockLogger) Trace(string, watermill.LogFields) {}

func (l stockLogger) With(watermill.LogFields) watermill.LoggerAdapter { return l }
