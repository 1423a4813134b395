package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// RabbitMQ is a durable queue: one lane.
type RabbitMQ struct {
	site, queue string
	exchange    string // Some of the messages are published to it.
	reached     string // For the ferry.
	arguments   amqp.Table
	heartbeat   string
	transient   bool
	size        int
	test        testing.TB
	broker      *brokers.Broker

	mu         sync.Mutex
	connection *amqp.Connection
}

// NewRabbitMQ makes a new durable queue on the broker. A setting is one of the queue's arguments, such as "x-queue-type=quorum" or
// "x-delivery-limit=3". The queue stays: the brokers of tests are thrown away.
func NewRabbitMQ(t testing.TB, site string, b *brokers.Broker, settings ...string) *RabbitMQ {
	t.Helper()
	q := &RabbitMQ{
		site: site, queue: uniqueName("orders"), reached: b.URL(), arguments: amqp.Table{}, transient: true,
		size: payloadSize, test: t, broker: b,
	}
	q.exchange = q.queue + "-events"
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		q.arguments[name] = value
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			q.arguments[name] = number
		}
	}
	t.Cleanup(func() {
		if q.connection != nil {
			_ = q.connection.CloseDeadline(time.Now().Add(time.Second))
		}
	})
	q.MakeQueue(t)
	return q
}

// MakeQueue makes the queue, and binds it, as NewRabbitMQ did; what exists stays.
func (q *RabbitMQ) MakeQueue(t testing.TB) {
	t.Helper()
	require.NoError(t, q.ask(func(c *amqp.Channel) error {
		if _, err := c.QueueDeclare(q.queue, true, false, false, false, q.arguments); err != nil {
			return err
		}
		if err := c.ExchangeDeclare(q.exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return err
		}
		return c.QueueBind(q.queue, "", q.exchange, false, nil)
	}))
}

// DeleteQueue deletes the queue and what is in it, whoever uses it, and returns how many messages were ready in it.
func (q *RabbitMQ) DeleteQueue(t testing.TB) int {
	t.Helper()
	var n int
	require.NoError(t, q.ask(func(c *amqp.Channel) (err error) {
		n, err = c.QueueDelete(q.queue, false, false, false)
		return err
	}))
	return n
}

// Through lets the ferry reach the broker at another address, such as that of a link; the test itself goes the straight way.
func (q *RabbitMQ) Through(address string) *RabbitMQ {
	q.reached = q.broker.URLAt(address)
	return q
}

// Payloads sets the size of the payloads from now on, 1 KB otherwise.
func (q *RabbitMQ) Payloads(size int) { q.size = size }

// Persistent makes all messages persistent; some are transient otherwise, which the end of the broker ends.
func (q *RabbitMQ) Persistent() *RabbitMQ {
	q.transient = false
	return q
}

// Heartbeat sets the data center's option heartbeat: how soon a side that is silent is noticed.
func (q *RabbitMQ) Heartbeat(every string) *RabbitMQ {
	q.heartbeat = ", heartbeat: " + every
	return q
}

// Site is the name of the data center, and its broker as a config file describes it.
func (q *RabbitMQ) Site() (name, broker string) {
	return q.site, fmt.Sprintf("rabbitmq: {url: %q%s}", q.reached, q.heartbeat)
}

// Topic is the name of the queue.
func (q *RabbitMQ) Topic() string { return q.queue }

// Lanes is 1: a queue is one lane.
func (q *RabbitMQ) Lanes() int { return 1 }

func (q *RabbitMQ) options() string { return "" }

// ask does something with a channel of its own, on a connection that is made again when it broke.
func (q *RabbitMQ) ask(what func(*amqp.Channel) error) error {
	connection, err := q.connect()
	if err != nil {
		return err
	}
	channel, err := connection.Channel()
	if err != nil {
		return fmt.Errorf("channel to %s: %w", q.queue, err)
	}
	defer channel.Close()
	if err := what(channel); err != nil {
		return fmt.Errorf("queue %s: %w", q.queue, err)
	}
	return nil
}

func (q *RabbitMQ) connect() (*amqp.Connection, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.connection != nil && !q.connection.IsClosed() {
		return q.connection, nil
	}
	connection, err := amqp.DialConfig(q.broker.URL(), amqp.Config{Heartbeat: time.Minute, Dial: amqp.DefaultDial(requestTimeout)})
	if err != nil {
		return nil, fmt.Errorf("connect for %s: %w", q.queue, err)
	}
	q.connection = connection
	return connection, nil
}

func (q *RabbitMQ) send(ctx context.Context, messages []*message) error {
	return q.ask(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		confirms := make([]*amqp.DeferredConfirmation, len(messages))
		for i, m := range messages {
			exchange, key := "", q.queue
			if m.exchange != "" {
				exchange, key = m.exchange, m.routingKey
			}
			var err error
			if confirms[i], err = c.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, m.publishing); err != nil {
				return err
			}
		}
		for _, confirm := range confirms {
			if stored, err := confirm.WaitContext(ctx); err != nil || !stored {
				return errors.Join(errors.New("a message is not confirmed"), err)
			}
		}
		return nil
	})
}

// count is how many messages are ready: whoever reads the queue makes them fewer.
func (q *RabbitMQ) count(context.Context) (int, error) {
	state, err := q.state()
	return state.Messages, err
}

func (q *RabbitMQ) state() (state amqp.Queue, err error) {
	err = q.ask(func(c *amqp.Channel) error {
		state, err = c.QueueDeclarePassive(q.queue, true, false, false, false, nil)
		return err
	})
	return state, err
}

// read takes the messages out of the queue.
func (q *RabbitMQ) read(ctx context.Context, from End, each func(*record.Record)) error {
	const prefetch = 2000
	_, same := from.(*RabbitMQ)
	state, err := q.state()
	if err != nil {
		return err
	}
	return q.ask(func(c *amqp.Channel) error {
		if err := c.Qos(prefetch, 0, false); err != nil {
			return err
		}
		deliveries, err := c.ConsumeWithContext(ctx, q.queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for n := 1; n <= state.Messages; n++ {
			d, ok := <-deliveries
			if !ok {
				return errors.Join(fmt.Errorf("only %d of %d messages came", n-1, state.Messages), ctx.Err())
			}
			r, err := received(d, same)
			if err != nil {
				return err
			}
			each(r)
			if n%(prefetch/2) == 0 || n == state.Messages {
				if err := d.Ack(true); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// unacked asks the queue itself, since what the management API tells may be seconds old.
func (q *RabbitMQ) unacked(context.Context, string) (string, error) {
	state, err := q.state()
	switch {
	case err != nil:
		return "", err
	case state.Messages > 0:
		return fmt.Sprintf("%d messages are ready in %s", state.Messages, q.queue), nil
	case state.Consumers == 0:
		return "", nil // Nobody holds any.
	}
	if n := q.held(); n > 0 {
		return fmt.Sprintf("%d messages of %s are not acked", n, q.queue), nil
	}
	return "", nil
}

// held is how many messages consumers hold.
func (q *RabbitMQ) held() int {
	table := q.broker.Ctl(q.test, "list_queues", "--no-table-headers", "name", "messages")
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == q.queue {
			n, err := strconv.Atoi(fields[1])
			require.NoError(q.test, err)
			return n
		}
	}
	q.test.Fatalf("queue %s is not in the list:\n%s", q.queue, table)
	return 0
}

// received is a message as an application gets it. One that was sent to a RabbitMQ is compared as it is. One from elsewhere is read by the stock
// package first, which wants every header to be text, and then what is declared in it is taken back.
func received(d amqp.Delivery, same bool) (*record.Record, error) {
	if same {
		return native(asPublished(&d)), nil
	}
	m, err := stock{}.Unmarshal(d)
	if err != nil {
		return nil, fmt.Errorf("the stock package cannot read what arrived: %w", err)
	}
	if d.DeliveryMode != amqp.Persistent {
		return nil, fmt.Errorf("message %q arrived as a transient one", m.UUID)
	}
	entries := make([]record.Header, 0, len(m.Metadata)+1)
	for name, value := range maps.All(m.Metadata) {
		entries = append(entries, record.Header{Key: name, Value: []byte(value)})
	}
	for name, value := range map[string]string{"mqferry_content_type": d.ContentType, "message-id": strings.TrimPrefix(d.MessageId, m.UUID)} {
		if value != "" {
			entries = append(entries, record.Header{Key: name, Value: []byte(value)})
		}
	}
	r := record.UnfoldTable(entries, d.Body, func(h record.Header) record.Header {
		if h.Value == nil {
			h.Value = []byte{}
		}
		return h
	})
	r.ID = m.UUID
	if r.Time.IsZero() && !d.Timestamp.IsZero() {
		r.Time = d.Timestamp
	}
	return r, nil
}
