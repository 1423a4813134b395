package brokertest

import (
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

func order(b *bench) {
	const n = 2000
	b.put(numbered(0, n)...)
	store := memory.New()
	f := b.drain(store, 512)
	site := store.Site("memory")
	b.await(site, func() bool { return site.Count(ferryTopic) >= n }, "not everything arrived")
	f.stop()
	all, _ := b.payloads(site)
	require.Equal(b, span(0, n), all)
	require.EqualValues(b, n, b.meter.Fetched.Load())
	require.EqualValues(b, n, b.meter.Committed.Load())
}

// isolation leaves one lane without an ack, and expects far more than a window from the others.
func isolation(b *bench) {
	if b.suite.Promises.Lanes < 2 {
		b.Skip("the broker has one lane to a topic")
	}
	const keys, each, window = 64, 20, 10
	records := make([]*record.Record, 0, keys*each)
	for i := range keys * each {
		records = append(records, &record.Record{Key: []byte(strconv.Itoa(i % keys)), Value: []byte(strconv.Itoa(i))})
	}
	b.put(records...)
	messages := b.subscribe(b.subscriber(window))
	first := b.receive(messages, 1)[0]
	stuck := laneOf(first)
	counts := map[string]int{stuck: 1}
	last := map[string]int{string(keyOf(first)): b.number(first)}
	deadline := time.After(b.suite.Patience)
	for total := 1; total-counts[stuck] < keys*each/4; total++ {
		select {
		case msg := <-messages:
			key, n := string(keyOf(msg)), b.number(msg)
			before, seen := last[key]
			require.True(b, !seen || before < n, "key %s: %d came after %d", key, n, before)
			last[key] = n
			counts[laneOf(msg)]++
			if laneOf(msg) != stuck {
				msg.Ack()
			}
		case <-deadline:
			require.FailNow(b, "the other lanes stand still", "%v came", counts)
		}
	}
	require.LessOrEqual(b, counts[stuck], window)
	require.Greater(b, len(counts), 1)
}

func laneOf(msg *message.Message) string { return record.From(msg.Context()).Source.Lane }

func keyOf(msg *message.Message) []byte { return record.From(msg.Context()).Key }
