package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
	stock "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// stockPublisher is the publisher of watermill-kafka, to topics that are made and looked up as for our own.
type stockPublisher struct {
	conn        *Connection
	destination handlers.Destination
	config      DestinationConfig
	inner       *stock.Publisher
	life        context.Context
	stop        context.CancelFunc
	closing     sync.Once
	ended       chan struct{} // The inner publisher has ended, with err.
	err         error
	publishing  sync.RWMutex // The inner publisher must not be closed meanwhile.

	mu     sync.Mutex
	topics map[string]*stockTopic
}

// stockTopic is what the publisher knows of a topic.
type stockTopic struct {
	found
	keep      bool
	limit     int64
	compacted bool
	at        time.Time // Of the question.
}

func newStockPublisher(c *Connection, destination handlers.Destination, o DestinationConfig) (*stockPublisher, error) {
	p := &stockPublisher{conn: c, destination: destination, config: o, ended: make(chan struct{}), topics: map[string]*stockTopic{}}
	inner, err := stock.NewPublisher(stock.PublisherConfig{
		Brokers: c.config.Brokers, Marshaler: p, OverwriteSaramaConfig: c.config.sarama(p.settings()),
	}, stockLogger{logger: destination.Logger})
	if err != nil {
		return nil, handlers.Unavailable(fmt.Errorf("kafka producer for %s: %w", destination.DataCenter, c.config.stockError(err)))
	}
	p.inner = inner
	p.life, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// settings are the safe ones: every replica has confirmed, and what is sent again is in order. Sarama could be idempotent too, but after one failure such a
// producer refuses hundreds of the messages that follow, of all lanes, as out of sequence.
func (p *stockPublisher) settings() *sarama.Config {
	s := stock.DefaultSaramaSyncPublisherConfig()
	s.Producer.RequiredAcks = sarama.WaitForAll
	s.Net.MaxOpenRequests = 1
	s.Producer.MaxMessageBytes = largestLimit // The topic's own limit counts.
	s.Producer.Partitioner = sarama.NewManualPartitioner
	s.Producer.Compression = p.config.Compression.sarama()
	return s
}

func (c Compression) sarama() sarama.CompressionCodec {
	switch c {
	case "gzip":
		return sarama.CompressionGZIP
	case "snappy":
		return sarama.CompressionSnappy
	case "lz4":
		return sarama.CompressionLZ4
	case "zstd":
		return sarama.CompressionZSTD
	}
	return sarama.CompressionNone
}

// Publish sends one message after the other, each when the one before is confirmed. Close ends it.
func (p *stockPublisher) Publish(topic string, messages ...*message.Message) error {
	result := make(chan error, 1)
	// Copies, since whoever calls may go on before the goroutine does.
	copies := make([]*message.Message, len(messages))
	for i, msg := range messages {
		copies[i] = msg.CopyWithContext()
	}
	go func() { result <- p.publish(topic, copies) }()
	select {
	case err := <-result:
		return err
	case <-p.life.Done():
		return handlers.Unavailable(errClosed)
	}
}

func (p *stockPublisher) publish(name string, messages []*message.Message) error {
	p.publishing.RLock()
	defer p.publishing.RUnlock()
	if p.life.Err() != nil {
		return handlers.Unavailable(errClosed)
	}
	if _, err := p.topic(name); err != nil {
		return err
	}
	for _, msg := range messages {
		if err := p.send(name, msg); err != nil {
			return err
		}
	}
	return nil
}

// leaderless is how often, a tenth of a second apart, a message is sent to a partition without a leader: one of a topic that was just made, which sarama
// may give up at once.
const leaderless = 10

func (p *stockPublisher) send(name string, msg *message.Message) error {
	err := p.inner.Publish(name, msg)
	for n := 0; n < leaderless && errors.Is(err, sarama.ErrNotLeaderForPartition) && p.life.Err() == nil; n++ {
		if handlers.Pause(p.life, 100*time.Millisecond); p.life.Err() != nil {
			break // Closed: whoever called Publish has left.
		}
		err = p.inner.Publish(name, msg)
	}
	switch {
	case err == nil:
		return nil
	case handlers.ClassOf(err) != handlers.Unclassified:
		return err
	case errors.Is(err, sarama.ErrUnknownTopicOrPartition), errors.Is(err, sarama.ErrMessageSizeTooLarge):
		p.forget(name) // It is gone, or has another limit now.
	}
	return handlers.Unavailable(p.conn.config.stockError(err))
}

// topic gives what is known of a topic, and asks the cluster the first time.
func (p *stockPublisher) topic(name string) (*stockTopic, error) {
	p.mu.Lock()
	t := p.topics[name]
	p.mu.Unlock()
	if t != nil {
		return t, nil
	}
	if err := checkTopic(name); err != nil {
		return nil, misnamed(p.destination, handlers.Permanent(err))
	}
	detail, err := p.conn.topicOrNew(p.life, name, p.config)
	if err != nil {
		return nil, misnamed(p.destination, err)
	}
	t = &stockTopic{found: detail, at: time.Now()}
	if t.keep, err = keeps(p.life, p.destination, &p.config, name, detail.partitions); err != nil {
		return nil, err
	}
	if t.limit, t.compacted, err = p.conn.limits(p.life, p.destination.Logger, name); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics[name] = t
	return t, nil
}

func (p *stockPublisher) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.topics, name)
}

// Marshal is called by the stock publisher. It keeps of the record what Kafka can keep, and chooses the partition.
func (p *stockPublisher) Marshal(topic string, msg *message.Message) (*sarama.ProducerMessage, error) {
	t, err := p.topic(topic)
	if err != nil {
		return nil, err
	}
	r := p.config.keyed(record.Outgoing(msg))
	var k kgo.Record
	toKafka(r, &k)
	if t.compacted && k.Key == nil {
		return nil, keyless(topic)
	}
	size := encodedSize(&k)
	if int64(size) > t.limit && time.Since(t.at) > stale {
		p.forget(topic)
		if t, err = p.topic(topic); err != nil {
			return nil, err
		}
	}
	if err := overLimit(topic, size, t.limit); err != nil {
		return nil, err
	}
	out := toSarama(&k)
	out.Topic, out.Partition = topic, int32(choose(p.config.Partition, t.keep, r, t.partitions))
	return out, nil
}

// Close ends the publishes that still wait, with an unavailable error. What sarama is still trying goes on for a while, at most some 40 seconds.
func (p *stockPublisher) Close() error {
	p.closing.Do(func() {
		p.stop()
		go func() {
			defer close(p.ended)
			p.publishing.Lock()
			defer p.publishing.Unlock()
			p.err = p.inner.Close()
		}()
	})
	select {
	case <-p.ended:
		return p.err
	case <-time.After(stockPatience):
		return nil
	}
}
