package brokertest

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

// There are two kinds of ferries: from the memory broker to the broker under test, and back. Both keep many messages in flight.

const (
	ferryTopic = "ferry"
	ferryGroup = "ferry"
)

// ferry is a relay between two ends, as a router would run it.
type ferry struct {
	bench      *bench
	subscriber message.Subscriber
	publisher  message.Publisher
	running    sync.WaitGroup
}

func (b *bench) start(s message.Subscriber, p message.Publisher, d handlers.Destination) *ferry {
	b.Helper()
	f := &ferry{bench: b, subscriber: s, publisher: p}
	messages := b.subscribe(s)
	relay := handlers.NewRelay(d, p, true)
	f.running.Add(1)
	go func() {
		defer f.running.Done()
		for msg := range messages {
			f.running.Add(1)
			go func() {
				defer f.running.Done()
				if relay.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			}()
		}
	}()
	return f
}

// stop ends the ferry cleanly.
func (f *ferry) stop() {
	f.bench.Helper()
	f.bench.close(f.subscriber)
	f.bench.within("the relay", f.running.Wait)
	f.bench.close(f.publisher)
}

func (b *bench) memory(store *memory.Store) handlers.Conn {
	b.Helper()
	dc, err := store.Broker().DataCenter(config.Raw{})
	require.NoError(b, err)
	conn, err := dc.Open(b.Context(), handlers.Settings{DataCenter: "memory"})
	require.NoError(b, err)
	return conn
}

// feed starts a ferry from a memory site to the broker under test.
func (b *bench) feed(store *memory.Store) *ferry {
	b.Helper()
	_, options, _ := memory.DefaultConfig()
	s, err := b.memory(store).Subscriber(handlers.Source{
		Route: "feed", DataCenter: "memory", Topic: ferryTopic, Group: ferryGroup, Window: 4096, Backoff: backoff(),
		Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}, options)
	require.NoError(b, err)
	b.opened = append(b.opened, func() {
		abort(s)
		_ = s.Close()
	})
	return b.start(s, b.publisher(), b.destination())
}

// drain starts a ferry from the broker under test to a memory site.
func (b *bench) drain(store *memory.Store, window int) *ferry {
	b.Helper()
	_, _, options := memory.DefaultConfig()
	d := handlers.Destination{
		Route: "drain", DataCenter: "memory", Topic: ferryTopic, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
	p, err := b.memory(store).Publisher(d, options)
	require.NoError(b, err)
	b.opened = append(b.opened, func() { _ = p.Close() })
	return b.start(b.subscriber(window), p, d)
}

// await waits until reached is true of the site.
func (b *bench) await(site *memory.Site, reached func() bool, what string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), b.suite.Patience)
	defer cancel()
	require.NoError(b, site.Await(ctx, reached), what)
}

// put publishes records to the broker under test, in order and many at a time.
func (b *bench) put(records ...*record.Record) {
	b.Helper()
	store := memory.New()
	site := store.Site("memory")
	site.Produce(ferryTopic, 0, records...)
	f := b.feed(store)
	b.delivered(site, len(records))
	f.stop()
}

func (b *bench) delivered(site *memory.Site, n int) {
	b.Helper()
	b.await(site, func() bool { return site.Committed(ferryTopic, ferryGroup, 0) == n }, "not everything was delivered")
}

// payloads lists what arrived at a memory site, and what of it for the first time.
func (b *bench) payloads(site *memory.Site) (all, first []int) {
	b.Helper()
	seen := map[int]bool{}
	for _, r := range site.Messages(ferryTopic) {
		n := b.number(&message.Message{Payload: r.Value})
		all = append(all, n)
		if !seen[n] {
			seen[n] = true
			first = append(first, n)
		}
	}
	return all, first
}
