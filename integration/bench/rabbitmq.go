package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/integration/brokers"
)

// rabbitBatch is how many messages are published before their confirms are waited for, when a queue is filled.
const rabbitBatch = 2000

func rabbitmqStation() *station {
	return &station{
		name:  "RabbitMQ",
		start: func() (*brokers.Broker, error) { return brokers.StartRabbitMQ() },
		site: func(b *brokers.Broker, address string) string {
			return fmt.Sprintf("rabbitmq: {url: %q}", b.URLAt(address))
		},
		fill:  fillRabbitMQ,
		eaten: true,
		count: func(b *brokers.Broker) (counter, error) {
			connection, err := amqp.Dial(b.URL())
			return &rabbitmqCounter{connection: connection}, err
		},
	}
}

type rabbitmqCounter struct {
	connection *amqp.Connection
	channel    *amqp.Channel // nil after RabbitMQ has closed it, as it does when a queue does not exist.
}

func (c *rabbitmqCounter) close() { _ = c.connection.Close() }

func (c *rabbitmqCounter) count(_ context.Context, topic string) (n int, err error) {
	if c.channel == nil {
		if c.channel, err = c.connection.Channel(); err != nil {
			return 0, err
		}
	}
	queue, err := c.channel.QueueDeclarePassive(topic, true, false, false, false, nil)
	if err != nil {
		c.channel = nil
	}
	var no *amqp.Error
	if errors.As(err, &no) && no.Code == amqp.NotFound {
		return 0, nil
	}
	return queue.Messages, err
}

// open opens a channel on a connection of its own, with confirms, and makes the durable queue.
func open(url, queue string) (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	channel, err := connection.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err == nil {
		_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	}
	if err != nil {
		_ = connection.Close()
		return nil, nil, err
	}
	return connection, channel, nil
}

func fillRabbitMQ(ctx context.Context, b *brokers.Broker, topic string, o options) error {
	connection, channel, err := open(b.URL(), topic)
	if err != nil {
		return err
	}
	defer connection.Close()
	confirms := make([]*amqp.DeferredConfirmation, 0, rabbitBatch)
	n := o.messages / 4
	for i := range n {
		confirm, err := channel.PublishWithDeferredConfirm("", topic, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Body: payload(o.size, uint64(i)),
		})
		if err != nil {
			return err
		}
		if confirms = append(confirms, confirm); len(confirms) < rabbitBatch && i < n-1 {
			continue
		}
		for _, confirm := range confirms {
			if _, err := confirm.WaitContext(ctx); err != nil {
				return err
			}
		}
		confirms = confirms[:0]
	}
	return nil
}

// shovel lets the source's own RabbitMQ move the messages.
func (b *bench) shovel(name string, prefetch int) relay {
	return relay{name: name, start: func(c crossing) (*moving, error) {
		shovel := strings.TrimSuffix(c.from.near.ManagementURL(), "/") + "/api/parameters/shovel/%2F/" + c.run
		value := map[string]any{
			"src-protocol": "amqp091", "src-uri": uri(c.from.near, c.from.near.Address()), "src-queue": c.topic, "src-prefetch-count": prefetch,
			"dest-protocol": "amqp091", "dest-uri": uri(c.to.far, c.to.link.Address()), "dest-queue": c.run, "ack-mode": "on-confirm",
		}
		if err := manage(b.ctx, http.MethodPut, shovel, map[string]any{"value": value}); err != nil {
			return nil, err
		}
		return &moving{stop: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 10*time.Second)
			defer cancel()
			_ = manage(ctx, http.MethodDelete, shovel, nil)
		}}, nil
	}}
}

// uri is a broker for a shovel, which takes the slash at the end for a virtual host without a name.
func uri(b *brokers.Broker, address string) string { return strings.TrimSuffix(b.URLAt(address), "/") }

// manage asks the management API to do something.
func manage(ctx context.Context, method, url string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s %s: %s: %s", method, request.URL.Redacted(), response.Status, text)
	}
	return nil
}

// pumpPrefetch is how many messages the plain pump has in flight.
const pumpPrefetch = 2000

// rabbitmqPump is the least that can be done with the client: what is confirmed is acked.
func (b *bench) rabbitmqPump() relay {
	return relay{name: "pump, amqp091, prefetch 2,000", start: func(c crossing) (*moving, error) {
		from, source, err := open(c.from.near.URL(), c.topic)
		if err != nil {
			return nil, err
		}
		to, destination, err := open(c.to.far.URLAt(c.to.link.Address()), c.run)
		if err != nil {
			_ = from.Close()
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = pumpRabbitMQ(source, destination, c)
		}()
		return &moving{stop: func() {
			_ = from.Close()
			_ = to.Close()
			<-done
		}}, nil
	}}
}

// inFlight is a message of the pump whose confirm is awaited.
type inFlight struct {
	tag     uint64
	confirm *amqp.DeferredConfirmation
}

func pumpRabbitMQ(source, destination *amqp.Channel, c crossing) error {
	if err := source.Qos(pumpPrefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := source.Consume(c.topic, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	flight := make(chan inFlight, pumpPrefetch)
	acks := make(chan struct{})
	go func() {
		defer close(acks)
		for f := range flight {
			if stored := f.confirm.Wait(); stored && (f.tag%100 == 0 || len(flight) == 0) {
				_ = source.Ack(f.tag, true)
			}
		}
	}()
	for d := range deliveries {
		confirm, err := destination.PublishWithDeferredConfirm("", c.run, false, false, amqp.Publishing{
			Headers: d.Headers, DeliveryMode: d.DeliveryMode, Body: d.Body,
		})
		if err != nil {
			break
		}
		flight <- inFlight{d.DeliveryTag, confirm}
	}
	close(flight)
	<-acks
	return nil
}
