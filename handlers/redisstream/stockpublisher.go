package redisstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	stock "github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// stockPublisher is the publisher of watermill-redisstream, whose errors get a class.
type stockPublisher struct {
	connection *connection
	options    DestinationConfig
	inner      *stock.Publisher
	client     *redis.Client
	flying     atomic.Int64 // Messages without an answer.
	closed     atomic.Bool
	ends       sync.WaitGroup
	cancel     context.CancelFunc
}

func newStockPublisher(c *connection, d handlers.Destination, o DestinationConfig) (*stockPublisher, error) {
	settings := c.options(stockSockets)
	settings.ReadTimeout, settings.WriteTimeout = time.Duration(o.ConfirmTimeout), time.Duration(o.ConfirmTimeout)
	client := redis.NewClient(settings)
	inner, err := stock.NewPublisher(stock.PublisherConfig{
		Client: client, Marshaller: marshaller{}, DefaultMaxlen: o.MaxLength,
	}, newStockLogger(d.Logger))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	p := &stockPublisher{connection: c, options: o, inner: inner, client: client}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.ends.Go(func() { c.watch(ctx, d.Health, func() bool { return p.flying.Load() == 0 }) })
	return p, nil
}

// Publish adds messages to the stream called topic, one after the other.
func (p *stockPublisher) Publish(topic string, messages ...*message.Message) error {
	p.flying.Add(1)
	defer p.flying.Add(-1)
	for _, msg := range messages {
		if p.closed.Load() {
			return handlers.Unavailable(errClosed)
		}
		if err := p.inner.Publish(topic, msg); err != nil {
			return p.classify(topic, err)
		}
	}
	return nil
}

// classify never calls an error without a code a refusal: it may come from a proxy whose server is down.
func (p *stockPublisher) classify(stream string, err error) error {
	err = p.connection.permitDestination(stream, p.options, err)
	var reply redis.Error
	switch {
	case handlers.ClassOf(err) != handlers.Unclassified:
		return err
	case errors.As(err, &reply):
		return classify(stream, redigo.Error(reply.Error()), err, false)
	}
	return handlers.Unavailable(fmt.Errorf("add to stream %s: %w", stream, err))
}

// Close ends what waits for an answer. It does not close the stock publisher, which notes that without a lock, only its client.
func (p *stockPublisher) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.cancel()
	p.ends.Wait()
	return p.client.Close()
}

// marshaller carries records through the stock package. Its entries are maps, so the order and the repeats of fields are lost: entries of any
// shape whose fields are repeated go in Watermill's format.
type marshaller struct{}

// Marshal gives the fields for msg's record.
func (marshaller) Marshal(topic string, msg *message.Message) (map[string]any, error) {
	r := record.Outgoing(msg)
	e := DestinationConfig{}.encode(r)
	values := e.values()
	if len(values) < len(e.fields)/2 {
		e = folded(r)
		values = e.values()
	}
	return values, sized(defaultLimit, topic, e)
}

func (e encoded) values() map[string]any {
	values := make(map[string]any, len(e.fields)/2+1)
	for i := 0; i+1 < len(e.fields); i += 2 {
		values[e.fields[i]] = e.fields[i+1]
	}
	if e.payloadName != "" {
		values[e.payloadName] = e.payload
	}
	return values
}

// unmarshal gives the record of an entry, and nil for one that is gone. Fields that are not in Watermill's format come in sorted order.
func unmarshal(source handlers.Source, values map[string]any) *record.Record {
	position, ok := values[entryKey].(entryPosition)
	if !ok {
		return nil
	}
	fields := make([]string, 0, 2*len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if value, ok := values[name].(string); ok {
			fields = append(fields, name, value)
		}
	}
	id, _ := parseID(string(position))
	return decode(record.Source{DataCenter: source.DataCenter, Topic: source.Topic}, id, fields)
}
