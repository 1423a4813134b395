package brokertest

import (
	"context"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/record"
)

// samples are records that something is easily lost of, so far as the broker promises to keep it.
func samples(p Promises) []*record.Record {
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	all := []*record.Record{
		{ID: "plain", Value: []byte("v")},
		{ID: "empty value", Value: []byte{}},
		{ID: "any bytes", Value: bytes},
		{ID: "large value", Value: make([]byte, 300_000)},
		{ID: "an id with any bytes \xff\x00é", Value: []byte("v")},
		{ID: "one header", Value: []byte("v"), Headers: []record.Header{header("a", "1")}},
		{ID: "empty header", Value: []byte("v"), Headers: []record.Header{header("a", "")}},
		{ID: "binary header", Value: []byte("v"), Headers: []record.Header{header("a", string(bytes))}},
		{ID: "names in use", Value: []byte("v"), Headers: []record.Header{header("mqferry_key", "k"), header("payload", "p")}},
	}
	if p.Keys {
		all = append(all,
			&record.Record{ID: "key", Key: []byte("k"), Value: []byte("v")},
			&record.Record{ID: "empty key", Key: []byte{}, Value: []byte("v")},
			&record.Record{ID: "binary key", Key: bytes, Value: []byte("v")})
	}
	if p.Nulls {
		all = append(all, &record.Record{ID: "null", Value: nil, Headers: []record.Header{header("a", "1")}})
		if p.Keys {
			all = append(all, &record.Record{ID: "tombstone", Key: []byte("k"), Value: nil})
		}
	}
	if p.HeaderOrder {
		all = append(all, &record.Record{ID: "headers", Value: []byte("v"), Headers: []record.Header{
			header("z", "1"), header("a", "2"), header("z", "3"), header("", "no name"), header("z", "1"), header("é\x00", "name"),
		}})
	}
	if p.HeaderNulls {
		all = append(all, &record.Record{ID: "null header", Value: []byte("v"), Headers: []record.Header{{Key: "a"}, header("b", "")}})
	}
	if p.Time > 0 {
		all = append(all,
			&record.Record{ID: "time", Value: []byte("v"), Time: time.Unix(1_600_000_000, 123_456_789)},
			&record.Record{ID: "old time", Value: []byte("v"), Time: time.UnixMilli(1)})
	}
	return all
}

func header(key, value string) record.Header { return record.Header{Key: key, Value: []byte(value)} }

func fidelity(b *bench) {
	want := samples(b.suite.Promises)
	b.put(want...)
	got := map[string]*message.Message{}
	for _, msg := range b.receive(b.subscribe(b.subscriber(len(want))), len(want)) {
		got[msg.UUID] = msg
	}
	for _, r := range want {
		require.Contains(b, got, r.ID)
		b.same(r, got[r.ID])
	}
}

// same compares what arrived with what was sent.
func (b *bench) same(want *record.Record, msg *message.Message) {
	b.Helper()
	p := b.suite.Promises
	got := record.From(msg.Context())
	require.NotNil(b, got, "%s: the message carries no record", want.ID)
	require.Equal(b, want.ID, got.ID)
	require.Equal(b, want.Value, got.Value, "%s: value", want.ID)
	require.Equal(b, string(want.Value), string(msg.Payload), "%s: payload", want.ID)
	require.Equal(b, record.Metadata(want), msg.Metadata, "%s: metadata", want.ID)
	if p.Keys {
		require.Equal(b, want.Key, got.Key, "%s: key", want.ID)
	}
	require.Equal(b, len(want.Headers), len(got.Headers), "%s: headers", want.ID)
	for i, h := range b.inOrder(want.Headers) {
		require.Equal(b, h, b.inOrder(got.Headers)[i], "%s: header %d", want.ID, i)
	}
	if p.Time > 0 && !want.Time.IsZero() {
		require.Equal(b, want.Time.Truncate(p.Time).UTC(), got.Time.Truncate(p.Time).UTC(), "%s: time", want.ID)
	}
	require.Equal(b, "here", got.Source.DataCenter)
	require.Equal(b, b.topic, got.Source.Topic)
}

// inOrder sorts headers when the broker does not promise their order.
func (b *bench) inOrder(headers []record.Header) []record.Header {
	sorted := slices.Clone(headers)
	if !b.suite.Promises.HeaderOrder {
		slices.SortStableFunc(sorted, func(x, y record.Header) int { return slices.Compare([]byte(x.Key), []byte(y.Key)) })
	}
	return sorted
}

func changes(b *bench) {
	r := &record.Record{ID: "1", Value: []byte("old"), Headers: []record.Header{header("gone", "x"), header("kept", "y"), header("set", "z")}}
	msg := r.Message(context.Background())
	msg.Payload = []byte("new")
	delete(msg.Metadata, "gone")
	msg.Metadata.Set("set", "Z")
	msg.Metadata.Set("added", "A")
	b.publish(msg)
	b.same(&record.Record{ID: "1", Value: []byte("new"), Headers: []record.Header{
		header("kept", "y"), header("set", "Z"), header("added", "A"),
	}}, b.receive(b.subscribe(b.subscriber(1)), 1)[0])
}

// foreign is a message that middleware made, or a stock subscriber: it has neither ticket nor record.
func foreign(b *bench) {
	one := message.NewMessage("one", []byte("1"))
	one.Metadata.Set("a", "b")
	b.publish(one, message.NewMessage("two", []byte("2")))
	got := b.receive(b.subscribe(b.subscriber(2)), 2)
	b.same(&record.Record{ID: "one", Value: []byte("1"), Headers: []record.Header{header("a", "b")}}, got[0])
	b.same(&record.Record{ID: "two", Value: []byte("2")}, got[1])
}

// publish hands messages over without a relay.
func (b *bench) publish(messages ...*message.Message) {
	b.Helper()
	p := b.publisher()
	b.within("publish", func() { require.NoError(b, p.Publish(b.topic, messages...)) })
	b.close(p)
}
