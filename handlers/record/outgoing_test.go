package record_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

func TestUntouchedMessageGoesOutAsTheRecordItself(t *testing.T) {
	for name, touch := range map[string]func(*message.Message){
		"nothing done":                  func(*message.Message) {},
		"a key set to what it was":      func(m *message.Message) { m.Metadata.Set("b", "2") },
		"payload replaced by the same":  func(m *message.Message) { m.Payload = []byte("payload") },
		"metadata replaced by the same": func(m *message.Message) { m.Metadata = record.Metadata(sample()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := sample()
			msg := r.Message(context.Background())
			touch(msg)
			require.Same(t, r, record.Outgoing(msg))
		})
	}
}

func TestOutgoingChangesExactlyWhatMiddlewareChanged(t *testing.T) {
	null, typed := record.Header{Key: "null"}, record.Header{Key: "typed", Value: []byte("7"), Type: 3}
	for name, c := range map[string]struct {
		touch func(*message.Message)
		want  func(*record.Record)
	}{
		"a changed repeated key is one header where the first stood": {
			func(m *message.Message) { m.Metadata.Set("b", "3") },
			func(r *record.Record) {
				r.Headers = []record.Header{header("b", "3"), header("a", "\xff\x00"), null, typed}
			},
		},
		"a repeated key changed to its first value is changed": {
			func(m *message.Message) { m.Metadata.Set("b", "1") },
			func(r *record.Record) {
				r.Headers = []record.Header{header("b", "1"), header("a", "\xff\x00"), null, typed}
			},
		},
		"a changed typed header is bytes": {
			func(m *message.Message) { m.Metadata.Set("typed", "8") },
			func(r *record.Record) { r.Headers[4] = header("typed", "8") },
		},
		"a changed null header is no longer null": {
			func(m *message.Message) { m.Metadata.Set("null", "x") },
			func(r *record.Record) { r.Headers[2] = header("null", "x") },
		},
		"a deleted key goes with all its repeats": {
			func(m *message.Message) { delete(m.Metadata, "b") },
			func(r *record.Record) { r.Headers = []record.Header{header("a", "\xff\x00"), null, typed} },
		},
		"new keys follow in sorted order": {
			func(m *message.Message) { m.Metadata.Set("z", "1"); m.Metadata.Set("c", ""); m.Metadata.Set("y", "2") },
			func(r *record.Record) {
				r.Headers = append(r.Headers, header("c", ""), header("y", "2"), header("z", "1"))
			},
		},
		"one key deleted and another added": {
			func(m *message.Message) { delete(m.Metadata, "null"); m.Metadata.Set("new", "") },
			func(r *record.Record) {
				r.Headers = []record.Header{header("b", "1"), header("a", "\xff\x00"), header("b", "2"), typed, header("new", "")}
			},
		},
		"metadata set to nil is no headers": {
			func(m *message.Message) { m.Metadata = nil },
			func(r *record.Record) { r.Headers = nil },
		},
		"a replaced payload": {
			func(m *message.Message) { m.Payload = []byte("other") },
			func(r *record.Record) { r.Value = []byte("other") },
		},
		"a payload set to nil is null": {
			func(m *message.Message) { m.Payload = nil },
			func(r *record.Record) { r.Value = nil },
		},
		"a changed id": {
			func(m *message.Message) { m.UUID = "id-2" },
			func(r *record.Record) { r.ID = "id-2" },
		},
		"an id in the metadata never becomes a second one": {
			func(m *message.Message) { m.Metadata.Set(record.IDKey, "id-2") },
			func(*record.Record) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, want := sample(), sample()
			msg := r.Message(context.Background())
			c.touch(msg)
			c.want(want)
			got := record.Outgoing(msg)
			require.NotSame(t, r, got)
			requireSame(t, want, got)
			require.Equal(t, want.Source, got.Source)
			requireSame(t, sample(), r)
		})
	}
}

func TestNullPayloadAndEmptyPayloadAreNotTheSame(t *testing.T) {
	null := &record.Record{}
	msg := null.Message(context.Background())
	require.Same(t, null, record.Outgoing(msg))
	msg.Payload = []byte{}
	require.Equal(t, []byte{}, record.Outgoing(msg).Value)
}

func TestMessageWithoutARecordGoesOutAsItIs(t *testing.T) {
	msg := message.NewMessage("id", []byte("payload"))
	msg.Metadata = message.Metadata{"b": "2", "a": "1", record.IDKey: "other"}
	requireSame(t, &record.Record{
		ID: "id", Value: []byte("payload"), Headers: []record.Header{header("a", "1"), header("b", "2")},
	}, record.Outgoing(msg))
	require.Nil(t, record.Outgoing(message.NewMessage("id", nil)).Value)
}

// The rules again, by definition instead of by example, on any record and any change, with few and with many headers.
func TestOutgoingShowsTheMetadataAndKeepsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		msg := r.Message(context.Background())
		require.Same(t, r, record.Outgoing(msg))

		for key := range record.Metadata(r) {
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				delete(msg.Metadata, key)
			case 1:
				msg.Metadata.Set(key, "changed")
			}
		}
		if rapid.Bool().Draw(t, "add") {
			msg.Metadata.Set("added", "")
		}
		got := record.Outgoing(msg)
		require.Equal(t, msg.Metadata, record.Metadata(got))
		var want, kept []record.Header
		before := record.Metadata(r)
		same := func(h record.Header) bool {
			now, ok := msg.Metadata[h.Key]
			return ok && now == before[h.Key]
		}
		for _, h := range r.Headers {
			if same(h) {
				want = append(want, h)
			}
		}
		for _, h := range got.Headers {
			if _, old := before[h.Key]; old && same(h) {
				kept = append(kept, h)
			}
		}
		require.Equal(t, want, kept)
	})
}

func TestOutgoingOfAnUntouchedMessageAllocatesNothing(t *testing.T) {
	r := sample()
	for i := range 20 {
		r.Headers = append(r.Headers, header(fmt.Sprintf("header-%d", i), "value"))
	}
	msg := r.Message(context.Background())
	require.Zero(t, testing.AllocsPerRun(100, func() { record.Outgoing(msg) }))
}

func TestOutgoingOfThousandsOfHeadersIsNotQuadratic(t *testing.T) {
	r := &record.Record{}
	for i := range 100_000 {
		r.Headers = append(r.Headers, header(fmt.Sprintf("header-%d", i%50_000), "value"))
	}
	msg := r.Message(context.Background())
	msg.Metadata.Set("new", "1")
	done := make(chan int, 1)
	go func() { done <- len(record.Outgoing(msg).Headers) }()
	select {
	case n := <-done:
		require.Equal(t, 100_001, n)
	case <-time.After(10 * time.Second):
		t.Fatal("merging 100,000 headers took more than 10 s")
	}
}
