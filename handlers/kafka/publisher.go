package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// errClosed is what becomes of messages that were not confirmed when their publisher was closed.
var errClosed = errors.New("the publisher is closed")

// publisher produces to one cluster for one route. What it knows of each partition is in a domain; one lock guards them all, since a
// client is shared by them and is replaced as a whole. That lock is taken inside a lane's lock, so no turn is told anything under it.
type publisher struct {
	conn        *Connection
	destination handlers.Destination
	config      DestinationConfig
	hooks       *hooks
	catalog     catalog
	background  sync.WaitGroup
	stop        context.CancelFunc
	life        context.Context
	requests    atomic.Int32 // The largest request, in bytes.

	mu        sync.Mutex
	client    *kgo.Client
	domains   []*domain // Of all topics, also of those that are gone.
	flying    int       // Records in the client.
	confirmed int64     // Records confirmed so far.
	replacing bool      // The client is to be replaced: nothing enters it, and when it is empty another one takes its place.
	closed    bool
	drained   chan struct{} // Closed when the publisher is, and nothing is flying.
}

func newPublisher(c *Connection, destination handlers.Destination, o DestinationConfig) (*publisher, error) {
	p := &publisher{
		conn: c, destination: destination, config: o,
		hooks:   &hooks{config: c.config, health: destination.Health, meter: destination.Meter},
		drained: make(chan struct{}),
	}
	p.catalog.publisher = p
	p.requests.Store(requestBytes)
	var err error
	if p.client, err = p.dial(); err != nil {
		return nil, fmt.Errorf("kafka producer for %s: %w", destination.DataCenter, err)
	}
	p.life, p.stop = context.WithCancel(context.Background())
	p.background.Go(p.watch)
	return p, nil
}

// dial makes a producer that never gives up a record which may be stored, and never blocks: the windows bound what is in it.
func (p *publisher) dial() (*kgo.Client, error) {
	return p.conn.dial(
		kgo.WithHooks(p.hooks),
		kgo.WithLogger(recaller{&p.catalog}),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(p.config.Compression.codec()),
		kgo.ProducerBatchMaxBytesFn(p.catalog.batchBytes),
		kgo.ProducerLinger(time.Duration(p.config.Linger)),
		kgo.MaxBufferedRecords(math.MaxInt),
		kgo.BrokerMaxWriteBytes(p.requests.Load()),
		// A topic that is gone gives its records back, so that it can be looked up and made again.
		kgo.UnknownTopicRetries(unknownTopicRetries),
	)
}

// unknownTopicRetries is how often a produced record may find no topic before the topic is looked up anew. A topic that was just made is
// not known to all brokers at once.
const unknownTopicRetries = 4

// requestBytes bounds a request, which is a copy of the records in it, to what a fast and long link needs: otherwise it would hold a batch of every
// partition that has something to send. overhead is what a request has beside its batches.
const (
	requestBytes = 8 << 20
	overhead     = 64 << 10
)

// fit lets requests hold the largest batch of a topic, and reports whether another client is needed for that. p.mu is held.
func (p *publisher) fit(t *topic) bool {
	need := int32(t.batches.Load() + overhead)
	if need <= p.requests.Load() {
		return false
	}
	p.requests.Store(need)
	return true
}

// Publish sends the messages in order and waits until Kafka has confirmed them all. It returns the first error.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	return handlers.PublishAll(messages, func(msg *message.Message, turn *handlers.Turn) error {
		return p.send(topic, msg, turn)
	})
}

// send hands one message to its partition, unless it is clear that it can never be stored there.
func (p *publisher) send(name string, msg *message.Message, turn *handlers.Turn) error {
	if p.destination.Template != nil {
		if err := checkTopic(name); err != nil {
			return handlers.Permanent(err)
		}
	}
	t, err := p.catalog.topic(name)
	if err != nil {
		return err
	}
	r := p.config.keyed(record.Outgoing(msg))
	s := &shipment{turn: turn, domain: t.domains[choose(p.config.Partition, t.keep, r, len(t.domains))]}
	toKafka(r, &s.record)
	s.record.Topic, s.record.Partition = name, s.domain.partition
	s.size = encodedSize(&s.record)
	if err := p.catalog.admit(t, s); err != nil {
		return err
	}
	return turn.Send(s.put)
}

// replace asks for another client: franz-go reads the size of batches and the identity of a topic only once. p.mu is held.
func (p *publisher) replace() {
	p.replacing = true
	if p.flying == 0 && !p.closed {
		p.startSwap()
	}
}

// startSwap replaces the client, which is empty. p.mu is held.
func (p *publisher) startSwap() {
	p.background.Go(p.swap)
}

func (p *publisher) swap() {
	client, err := p.dial()
	var out outbox
	p.mu.Lock()
	unused := client
	if p.replacing && p.flying == 0 && !p.closed {
		p.replacing = false
		if err == nil {
			unused, p.client = p.client, client
		}
		p.advanceAll(&out)
	}
	p.mu.Unlock()
	out.send()
	if unused != nil {
		unused.Close()
	}
}

// advanceAll lets every domain go on. p.mu is held.
func (p *publisher) advanceAll(out *outbox) {
	for _, d := range p.domains {
		d.advance(out)
	}
}

// landed notes that a record has left the client. p.mu is held.
func (p *publisher) landed(err error) {
	p.flying--
	if err == nil {
		p.confirmed++
	}
	if p.flying > 0 {
		return
	}
	switch {
	case p.closed:
		close(p.drained)
	case p.replacing:
		p.startSwap()
	}
}

// stalled is after how long without a confirm the destination is taken for down, while something is in flight.
const stalled = 5 * time.Second

// watch tells of a destination that takes records and confirms none: a leader without replicas, a link that went dead. One that is sent nothing is asked for
// a sign of life, so that it is known to be down before the next message needs it.
func (p *publisher) watch() {
	ticker := time.NewTicker(stalled)
	defer ticker.Stop()
	last, was := int64(0), 0
	silent := false // So said the last question.
	for {
		select {
		case <-p.life.Done():
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		confirmed, flying, client := p.confirmed, p.flying, p.client
		p.mu.Unlock()
		if flying == 0 && was == 0 && confirmed == last {
			silent = p.ask(client, silent)
		}
		if flying > 0 && was > 0 && confirmed == last {
			p.destination.Health.Down(p.hooks.why(fmt.Errorf("kafka has confirmed none of %d records for %s", flying, stalled)))
		}
		last, was = confirmed, flying
	}
}

// ask asks an idle cluster for a sign of life, and reports whether none came. An answer takes back only what such a question has said: a lane may be held for
// another reason.
func (p *publisher) ask(client *kgo.Client, silent bool) bool {
	ctx, cancel := context.WithTimeout(p.life, stalled)
	defer cancel()
	err := client.Ping(ctx)
	switch {
	case err == nil && silent:
		p.destination.Health.Up()
	case err == nil:
	case p.life.Err() == nil && !errors.Is(err, kgo.ErrClientClosed):
		p.destination.Health.Down(p.hooks.why(fmt.Errorf("kafka gives no sign of life: %w", err)))
		return true
	}
	return false
}

// Close fails what is not confirmed, with an unavailable error, and ends the producer. Closing twice does nothing.
func (p *publisher) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.drained
		return nil
	}
	p.closed = true
	client := p.client
	if p.flying == 0 {
		close(p.drained)
	}
	p.mu.Unlock()
	p.stop()
	client.Close()
	<-p.drained
	var out outbox
	p.mu.Lock()
	p.advanceAll(&out)
	p.mu.Unlock()
	out.send()
	p.background.Wait()
	return nil
}
