package redisstream_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/handlers/redisstream"
)

// fieldsWorld is a world whose destination has the format fields, and is the source too.
func fieldsWorld(t *testing.T, payloadName string) *world {
	t.Helper()
	server := miniredis.RunT(t)
	w := newWorld(t, server.Addr(), server.Addr())
	w.out = w.in
	w.destOwn.Format, w.destOwn.PayloadField = redisstream.FieldsFormat, payloadName
	return w
}

// lastFields gives the fields of the newest entry as they are.
func (w *world) lastFields() []string {
	w.Helper()
	entries, err := w.there.Do(w.Context(), "XREVRANGE", w.out, "+", "-", "COUNT", 1).Slice()
	require.NoError(w, err)
	require.Len(w, entries, 1)
	var fields []string
	for _, f := range entries[0].([]any)[1].([]any) {
		fields = append(fields, f.(string))
	}
	return fields
}

func TestAnEntryOfFieldsHasThePayloadAndEachHeaderInAFieldOfItsOwn(t *testing.T) {
	w := fieldsWorld(t, "body")
	p := w.publisher()
	for _, c := range []struct {
		name string
		r    record.Record
		want []string
	}{
		{"nothing but a payload", record.Record{ID: "id", Value: []byte("p")}, []string{
			record.IDKey, "id", "mqferry_fields", "body", "body", "p",
		}},
		{"headers in order, with repeats", record.Record{ID: "id", Value: []byte{}, Headers: []record.Header{
			{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte("\xff")}, {Key: "b", Value: []byte{}},
		}}, []string{record.IDKey, "id", "b", "1", "a", "\xff", "b", "", "mqferry_fields", "body", "body", ""}},
		{"a key, a time and no payload", record.Record{ID: "id", Key: []byte("k"), Time: time.UnixMilli(7)}, []string{
			record.IDKey, "id", "mqferry_key", "k", "mqferry_null", "1", "mqferry_time", "7", "mqferry_fields", "body",
		}},
		{"names that mean something else", record.Record{ID: "id", Value: []byte("p"), Headers: []record.Header{
			{Key: "body", Value: []byte("h")}, {Key: "mqferry_key", Value: []byte("h")}, {Key: record.IDKey, Value: []byte("h")},
		}}, []string{
			record.IDKey, "id", "mqferry_escaped_body", "h", "mqferry_escaped_mqferry_key", "h", "mqferry_escaped_" + record.IDKey, "h",
			"mqferry_fields", "body", "body", "p",
		}},
		{"a null header", record.Record{ID: "id", Value: []byte("p"), Headers: []record.Header{{Key: "a"}}}, []string{
			record.IDKey, "id", "a", "", "mqferry_headers", "a!", "mqferry_fields", "body", "body", "p",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, p.Publish(w.out, c.r.Message(t.Context())))
			require.Equal(t, c.want, w.lastFields())
		})
	}
}

func TestAnyRecordComesBackFromAnEntryOfFields(t *testing.T) {
	for _, payloadName := range []string{"payload", "a"} {
		w := fieldsWorld(t, payloadName)
		p := w.publisher()
		messages := w.subscribe(w.subscriber("me"))
		names := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"a", "b", "payload", "metadata", "mqferry_key", "mqferry_null", "mqferry_time", "mqferry_headers", "mqferry_fields",
			"mqferry_escaped_a", "mqferry_escaped_payload", "mqferry_escaped_mqferry_key", "mqferry_escaped_mqferry_fields",
			"mqferry_escaped_mqferry_escaped_a", "mqferry_routing_key",
		}))
		bytes := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just([]byte{}), rapid.Just([]byte("1")), rapid.Just([]byte(payloadName)))
		orNull := rapid.OneOf(bytes, rapid.Just([]byte(nil)))
		rapid.Check(t, func(rt *rapid.T) {
			sent := &record.Record{ID: "x" + rapid.String().Draw(rt, "id"), Key: orNull.Draw(rt, "key"), Value: orNull.Draw(rt, "value")}
			sent.Time = time.Unix(0, rapid.Int64Range(1, 1<<60).Draw(rt, "time"))
			values := bytes
			if rapid.Bool().Draw(rt, "nulls and types") {
				values = orNull
			}
			for range rapid.IntRange(0, 6).Draw(rt, "headers") {
				h := record.Header{Key: names.Draw(rt, "name"), Value: values.Draw(rt, "value")}
				if h.Value == nil && rapid.Bool().Draw(rt, "typed") {
					h = record.Header{Key: h.Key, Value: []byte("5"), Type: record.Int32}
				}
				if h.Key == record.FieldsHeader {
					h.Value = append(h.Value, '!') // Otherwise it is what an entry of any shape has, and becomes that again.
				}
				sent.Headers = append(sent.Headers, h)
			}
			require.NoError(rt, p.Publish(w.out, sent.Message(t.Context())))
			got := w.receive(messages, 1)[0]
			got.Ack()
			r := *record.From(got.Context())
			require.True(rt, sent.Time.Equal(r.Time))
			r.Time, r.Source = sent.Time, record.Source{}
			require.Equal(rt, sent, &r, "%q", w.lastFields())
		})
	}
}

func TestFieldsThatOnlyLookLikeOursAreAnEntryOfAnyShape(t *testing.T) {
	w := fieldsWorld(t, "payload")
	p := w.publisher()
	messages := w.subscribe(w.subscriber("me"))
	for _, fields := range [][]string{
		{"mqferry_fields", "payload"},                                                                     // No payload.
		{"mqferry_fields", "payload", "payload", "1", "payload", "2"},                                     // Two.
		{"mqferry_fields", "payload", "mqferry_fields", "payload", "payload", "1"},                        // Two marks.
		{"mqferry_fields", "", "", "1"},                                                                   // No name.
		{"mqferry_fields", "payload", "payload", "1", "mqferry_null", "1"},                                // A payload and none.
		{"mqferry_fields", "payload", "payload", "1", "mqferry_time", "noon"},                             // Not a time.
		{"mqferry_fields", "payload", "payload", "1", "mqferry_key", "1", "mqferry_key", "2"},             // Two keys.
		{"mqferry_fields", "payload", "payload", "1", "z", "1", "a", "2", "mqferry_headers", "%"},         // Not a list.
		{"mqferry_fields", "mqferry_key", "mqferry_key", "1"},                                             // A name that means something.
		{"mqferry_fields", "payload", "b", "1", "a", "2", "payload", "1", "mqferry_headers", "a&b&c=1&d"}, // Headers that are not there.
	} {
		require.NoError(t, w.client.Do(t.Context(), append([]any{"XADD", w.in, "*"}, anys(fields)...)...).Err())
		got := w.receive(messages, 1)[0]
		require.NoError(t, p.Publish(w.out, got))
		require.Equal(t, fields, w.lastFields())
		got.Ack()
		again := w.receive(messages, 1)[0]
		require.Equal(t, got.Metadata, again.Metadata)
		again.Ack()
	}
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, s := range texts {
		all[i] = s
	}
	return all
}

func TestMiniredisKeepsEveryPromiseInTheFormatFields(t *testing.T) {
	server := miniredis.RunT(t)
	promises := everything()
	_, source, destination := redisstream.DefaultConfig()
	destination.Format, destination.PayloadField = redisstream.FieldsFormat, "body"
	brokertest.Run(t, suite(server.Addr(), source, destination, promises))
}

func TestAPlainMessageIsAnEntryOfFields(t *testing.T) {
	w := fieldsWorld(t, "payload")
	msg := message.NewMessage("id", []byte("p"))
	msg.Metadata.Set("kind", "order")
	require.NoError(t, w.publisher().Publish(w.out, msg))
	require.Equal(t, []string{record.IDKey, "id", "kind", "order", "mqferry_fields", "payload", "payload", "p"}, w.lastFields())
}
