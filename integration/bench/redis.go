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

// redisToRedis measures Redis to Redis, beside a plain pump that reads a batch and writes it in one pipeline, then the next.
func redisToRedis(ctx context.Context, o options) ([]row, error) {
	const pair = "Redis→Redis"
	if !o.wants(pair, "mqferry") && !o.wants(pair, "pump") {
		return nil, nil
	}
	s, err := openSites(func() (*brokers.Broker, error) { return brokers.StartRedis() })
	if err != nil {
		return nil, err
	}
	defer s.close()
	from, near, to := client(s.a.Address()), client(s.b.Address()), client(s.far.Address())
	defer from.Close()
	defer near.Close()
	defer to.Close()
	if err := fillRedis(ctx, from, o); err != nil {
		return nil, err
	}
	ferry := relay{name: "mqferry", start: func(run string) (func() (int, error), func(), error) {
		stop, err := s.workshop.ferry(run, redisSite(s.a.Address()), redisSite(s.far.Address()))
		return length(ctx, near, run), stop, err
	}}
	pump := relay{name: "pump, pipelines of 1,000 one at a time", start: func(run string) (func() (int, error), func(), error) {
		return length(ctx, near, run), startPump(ctx, from, to, run), nil
	}}
	return o.measure(ctx, pair, s.far.Delay, []relay{ferry, pump})
}

func redisSite(address string) string { return fmt.Sprintf("redis: {address: %q}", address) }

func client(address string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

// length counts the entries of a stream.
func length(ctx context.Context, c *redis.Client, stream string) func() (int, error) {
	return func() (int, error) {
		n, err := c.XLen(ctx, stream).Result()
		return int(n), err
	}
}

func fillRedis(ctx context.Context, c *redis.Client, o options) error {
	for i := 0; i < o.messages; i += pumpBatch {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for k := i; k < min(i+pumpBatch, o.messages); k++ {
				p.XAdd(ctx, &redis.XAddArgs{Stream: "bench", Values: []any{
					"_watermill_message_uuid", fmt.Sprint("m", k), "payload", payload(o.size, uint64(k)),
				}})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fill the source stream: %w", err)
		}
	}
	return nil
}

// startPump copies the source stream, without a group and without acks: the least that can be done.
func startPump(ctx context.Context, from, to *redis.Client, run string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		last := "0"
		for ctx.Err() == nil {
			streams, err := from.XRead(ctx, &redis.XReadArgs{Streams: []string{"bench", last}, Count: pumpBatch, Block: time.Second}).Result()
			if err != nil || len(streams) == 0 {
				continue
			}
			pipe := to.Pipeline()
			for _, entry := range streams[0].Messages {
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: run, Values: entry.Values})
				last = entry.ID
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
