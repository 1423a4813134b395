package brokertest

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
)

func closing(b *bench) {
	b.put(numbered(0, 10)...)
	unused := b.subscriber(10)
	b.close(unused)
	_, err := unused.Subscribe(context.Background(), b.topic)
	require.Error(b, err, "Subscribe after Close")

	s := b.subscriber(10)
	messages := b.subscribe(s)
	b.receive(messages, 3)
	b.close(s)
	b.close(s)
	select {
	case _, open := <-messages:
		require.False(b, open, "a message came after Close")
	case <-time.After(b.suite.Patience):
		require.FailNow(b, "Close did not close the channel")
	}
	_, err = s.Subscribe(context.Background(), b.topic)
	require.Error(b, err, "Subscribe after Close")

	ended := b.subscriber(10)
	ctx, cancel := context.WithCancel(context.Background())
	messages, err = ended.Subscribe(ctx, b.topic)
	require.NoError(b, err)
	cancel()
	b.within("the channel's end", func() {
		for range messages { //nolint:revive // Until it is closed.
		}
	})

	p := b.publisher()
	b.close(p)
	b.close(p)
	b.within("publish after Close", func() {
		require.Error(b, p.Publish(b.topic, message.NewMessage("late", []byte("late"))))
	})
}

// away starts an outage that ends by itself with the test, or skips the test.
func (b *bench) away() (end func()) {
	b.Helper()
	if b.suite.Promises.Outage == nil {
		b.Skip("the broker cannot be stopped here")
	}
	over := b.suite.Promises.Outage(b.T)
	ended := false
	end = func() {
		if !ended {
			ended = true
			over()
		}
	}
	b.Cleanup(end)
	return end
}

// publishing publishes a message and gives its result once it is there.
func (b *bench) publishing(p message.Publisher, id string) <-chan error {
	result := make(chan error, 1)
	go func() { result <- p.Publish(b.topic, message.NewMessage(id, []byte(id))) }()
	return result
}

func publishAway(b *bench) {
	p := b.publisher()
	require.NoError(b, b.result(b.publishing(p, "0")))
	end := b.away()
	result := b.publishing(p, "1")
	select {
	case err := <-result:
		b.failedOnTheWay(err)
		result = nil
	case <-time.After(time.Second):
	}
	end()
	for deadline := time.Now().Add(b.suite.Patience); ; {
		if result == nil {
			result = b.publishing(p, "1")
		}
		err := b.result(result)
		if err == nil {
			break
		}
		b.failedOnTheWay(err)
		require.True(b, time.Now().Before(deadline), "the publisher does not recover: %v", err)
		result = nil
	}
	got := b.numbers(b.receive(b.subscribe(b.subscriber(100)), 2))
	require.Equal(b, []int{0, 1}, got)
}

func (b *bench) result(result <-chan error) error {
	b.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(b.suite.Patience):
		require.FailNow(b, "Publish does not return")
		return nil
	}
}

func (b *bench) failedOnTheWay(err error) {
	b.Helper()
	require.Error(b, err, "Publish confirmed what the broker cannot have")
	require.Contains(b, []handlers.Class{handlers.ClassUnavailable, handlers.Unclassified}, handlers.ClassOf(err), "%v", err)
}

func closeAway(b *bench) {
	p := b.publisher()
	require.NoError(b, b.result(b.publishing(p, "0")))
	b.away()
	result := b.publishing(p, "1")
	b.within("close", func() { _ = p.Close() })
	require.Error(b, b.result(result))
}

func abortAway(b *bench) {
	b.put(numbered(0, 10)...)
	s := b.subscriber(10)
	got := b.receive(b.subscribe(s), 5)
	b.away()
	ack(got...)
	abort(s)
	b.within("close after Abort", func() { _ = s.Close() })
}

// outage stops the broker in the middle of a stream into it and out of it.
func outage(b *bench) {
	const n = 1000
	in, out := memory.New(), memory.New()
	source, sink := in.Site("memory"), out.Site("memory")
	source.Produce(ferryTopic, 0, numbered(0, n)...)
	feed, drain := b.feed(in), b.drain(out, 256)
	b.delivered(source, n)
	b.await(sink, func() bool { return sink.Count(ferryTopic) >= n/2 }, "nothing arrives")
	end := b.away()
	source.Produce(ferryTopic, 0, numbered(n, 2*n)...)
	<-time.After(500 * time.Millisecond) // How long it lasts.
	require.Less(b, source.Committed(ferryTopic, ferryGroup, 0), 2*n, "acked during the outage")
	end()
	b.delivered(source, 2*n)
	b.await(sink, func() bool { _, first := b.payloads(sink); return len(first) >= 2*n }, "not everything arrived")
	feed.stop()
	drain.stop()
	_, first := b.payloads(sink)
	require.Equal(b, span(0, 2*n), first)
}
