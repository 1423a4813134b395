package brokertest

import (
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/memory"
)

func window(b *bench) {
	b.put(numbered(0, 100)...)
	messages := b.subscribe(b.subscriber(10))
	got := b.receive(messages, 10)
	require.Equal(b, span(0, 10), b.numbers(got))
	b.silent(messages)
	// Everything but the first: the window reaches from the first on.
	ack(got[1:]...)
	b.silent(messages)
	ack(got[0])
	require.Equal(b, span(10, 20), b.numbers(b.receive(messages, 10)))
	b.silent(messages)
}

func prefix(b *bench) {
	b.put(numbered(0, 100)...)
	s := b.subscriber(50)
	got := b.receive(b.subscribe(s), 20)
	require.Equal(b, span(0, 20), b.numbers(got))
	ack(got[10:]...)
	ack(got[:5]...)
	meter := b.meter
	b.eventually(func() bool { return meter.Committed.Load() >= 5 }, "the prefix was not acked")
	abort(s)
	b.close(s)
	require.EqualValues(b, 5, meter.Committed.Load())

	got = b.receive(b.subscribe(b.subscriber(200)), 95)
	require.Equal(b, span(5, 100), b.numbers(got))
}

// plainClose uses the subscriber as any Watermill program does, without a relay, and closes it right after the last ack.
func plainClose(b *bench) {
	b.put(numbered(0, 60)...)
	for first := 0; first < 60; first += 20 {
		s := b.subscriber(20)
		got := b.receive(b.subscribe(s), 20)
		require.Equal(b, span(first, first+20), b.numbers(got))
		slices.Reverse(got)
		ack(got...)
		b.close(s)
	}
	b.nextIs(60)
}

// nextIs publishes one more number, and expects that nothing is delivered before it.
func (b *bench) nextIs(n int) {
	b.Helper()
	b.put(numbered(n, n+1)...)
	require.Equal(b, n, b.number(b.receive(b.subscribe(b.subscriber(20)), 1)[0]))
}

// routeStops stops and starts a route again and again while messages cross.
func routeStops(b *bench) {
	const n, stops = 1000, 3
	b.put(numbered(0, n)...)
	store := memory.New()
	site := store.Site("memory")
	for i := range stops {
		f := b.drain(store, 64)
		b.await(site, func() bool { return site.Count(ferryTopic) > i*n/stops }, "nothing arrives")
		f.stop()
	}
	f := b.drain(store, 64)
	b.await(site, func() bool { return site.Count(ferryTopic) >= n }, "not everything arrived")
	f.stop()
	all, _ := b.payloads(site)
	require.Equal(b, span(0, n), all)
	b.nextIs(n)
}

func nacks(b *bench) {
	b.put(numbered(0, 10)...)
	messages := b.subscribe(b.subscriber(5))
	got := b.receive(messages, 5)
	require.Equal(b, span(0, 5), b.numbers(got))
	got[3].Nack()
	got[1].Nack()
	ack(got[0], got[2], got[4])
	var again, fresh []int
	for range 7 { // The two, and the five that the window had no room for; these may come in between.
		msg := b.receive(messages, 1)[0]
		if n := b.number(msg); n < 5 {
			b.sameAgain(got[n], msg)
			again = append(again, n)
		} else {
			fresh = append(fresh, n)
		}
		ack(msg)
	}
	require.Equal(b, []int{1, 3}, again)
	require.Equal(b, span(5, 10), fresh)
	b.silent(messages)
}

func (b *bench) sameAgain(before, again *message.Message) {
	b.Helper()
	require.Equal(b, string(before.Payload), string(again.Payload))
	require.Equal(b, before.UUID, again.UUID)
	require.Equal(b, before.Metadata, again.Metadata)
	require.NotSame(b, before, again)
}

func groups(b *bench) {
	b.put(numbered(0, 10)...)
	s := b.subscriber(10)
	ack(b.receive(b.subscribe(s), 10)...)
	b.close(s)
	b.group += "-other"
	require.Equal(b, span(0, 10), b.numbers(b.receive(b.subscribe(b.subscriber(10)), 10)))
}
