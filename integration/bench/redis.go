package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/integration/brokers"
)

// pumpBatch is how many entries the plain pump reads and writes at a time.
const pumpBatch = 1000

func redisStation() *station {
	return &station{
		name:  "Redis",
		start: func() (*brokers.Broker, error) { return brokers.StartRedis() },
		site:  func(_ *brokers.Broker, address string) string { return fmt.Sprintf("redis: {address: %q}", address) },
		fill:  fillRedis,
		count: func(b *brokers.Broker) (counter, error) { return redisCounter{client(b.Address())}, nil },
	}
}

func client(address string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

type redisCounter struct{ client *redis.Client }

func (c redisCounter) close() { _ = c.client.Close() }

func (c redisCounter) count(ctx context.Context, topic string) (int, error) {
	n, err := c.client.XLen(ctx, topic).Result()
	return int(n), err
}

func fillRedis(ctx context.Context, b *brokers.Broker, topic string, o options) error {
	c := client(b.Address())
	defer c.Close()
	for i := 0; i < o.messages; i += pumpBatch {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for k := i; k < min(i+pumpBatch, o.messages); k++ {
				p.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: []any{
					"_watermill_message_uuid", fmt.Sprint("m", k), "payload", payload(o.size, uint64(k)),
				}})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// redisPump copies the source stream, without a group and without acks: the least that can be done.
func (b *bench) redisPump() relay {
	return relay{name: "pump, pipelines of 1,000 one at a time", start: func(c crossing) (*moving, error) {
		ctx, cancel := context.WithCancel(b.ctx)
		from, to := client(c.from.near.Address()), client(c.to.link.Address())
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer from.Close()
			defer to.Close()
			pumpRedis(ctx, from, to, c)
		}()
		return &moving{stop: func() { cancel(); <-done }}, nil
	}}
}

func pumpRedis(ctx context.Context, from, to *redis.Client, c crossing) {
	last := "0"
	for ctx.Err() == nil {
		streams, err := from.XRead(ctx, &redis.XReadArgs{Streams: []string{c.topic, last}, Count: pumpBatch, Block: time.Second}).Result()
		if err != nil || len(streams) == 0 {
			continue
		}
		pipe := to.Pipeline()
		for _, entry := range streams[0].Messages {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: c.run, Values: entry.Values})
			last = entry.ID
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return
		}
	}
}
