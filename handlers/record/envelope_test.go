package record_test

import (
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

// stock carries an entry through the encoding of the stock watermill-redisstream package, as Redis would give it back.
func stock(t require.TestingT, id string, metadata map[string]string, payload []byte) *message.Message {
	msg := message.NewMessage(id, payload)
	msg.Metadata = metadata
	fields, err := redisstream.DefaultMarshallerUnmarshaller{}.Marshal("topic", msg)
	require.NoError(t, err)
	entry := make(map[string]any, len(fields))
	for name, value := range fields {
		switch v := value.(type) {
		case []byte:
			entry[name] = string(v)
		case string:
			entry[name] = v
		}
	}
	got, err := redisstream.DefaultMarshallerUnmarshaller{}.Unmarshal(entry)
	require.NoError(t, err)
	return got
}

func TestAnyRecordComesBackFromAWatermillEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		metadata, payload := record.Fold(r)
		msg := stock(t, r.ID, metadata, payload)
		requireSame(t, r, record.Unfold(msg.UUID, msg.Metadata, msg.Payload))
	})
}

func TestAnyWatermillEntryComesBackFromARecord(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom([]string{
		"a", record.KeyEntry, record.NullEntry, record.TimeEntry, record.HeadersEntry, "mqferry_other",
		record.EscapedPrefix + record.NullEntry, record.EscapedPrefix + record.EscapedPrefix + record.NullEntry,
		record.EscapedPrefix + "a", record.EscapedPrefix + record.IDKey,
	}), rapid.String())
	value := rapid.OneOf(rapid.SampledFrom([]string{"1", "x", "a&b!", "a:1=%41", "%zz", "12.000001"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		entry := rapid.MapOf(name, value).Draw(t, "metadata")
		before := record.Unfold("id", maps.Clone(entry), []byte(rapid.String().Draw(t, "payload")))
		metadata, payload := record.Fold(before)
		requireSame(t, before, record.Unfold("id", metadata, payload))
		for k, v := range entry {
			if len(k) < 8 || k[:8] != "mqferry_" {
				require.Equal(t, v, metadata[k], "metadata %q of the application", k)
			}
		}
	})
}

func TestStockApplicationSeesOrdinaryMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		record record.Record
		want   message.Metadata
	}{
		"nothing": {record.Record{Value: []byte("v")}, nil},
		"a null value": {
			record.Record{}, message.Metadata{"mqferry_null": "1"},
		},
		"an empty key": {
			record.Record{Key: []byte{}, Value: []byte("v")}, message.Metadata{"mqferry_key": ""},
		},
		"a time": {
			record.Record{Value: []byte("v"), Time: time.UnixMilli(1_700_000_000_123)},
			message.Metadata{"mqferry_time": "1700000000123"},
		},
		"a time finer than Kafka's, before 1970": {
			record.Record{Value: []byte("v"), Time: time.UnixMilli(-2).Add(5)}, message.Metadata{"mqferry_time": "-2.000005"},
		},
		"sorted headers need no list": {
			record.Record{Value: []byte("v"), Headers: []record.Header{header("a", "1"), header("b", "\xff")}},
			message.Metadata{"a": "1", "b": "\xff"},
		},
		"unsorted headers": {
			record.Record{Value: []byte("v"), Headers: []record.Header{header("b c", "1"), header("a", "2")}},
			message.Metadata{"a": "2", "b c": "1", "mqferry_headers": "b%20c&a"},
		},
		"repeats, nulls and types": {
			record.Record{Value: []byte("v"), Headers: sample().Headers},
			message.Metadata{
				"a": "\xff\x00", "b": "2", "null": "", "typed": "7",
				"mqferry_headers": "b=1&a&null!&b=2&typed:3=7",
			},
		},
		"a header of a reserved name": {
			record.Record{Value: []byte("v"), Headers: []record.Header{header("mqferry_key", "mine"), header("mqferry_path", "a,b")}},
			message.Metadata{"mqferry_escaped_mqferry_key": "mine", "mqferry_path": "a,b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			metadata, payload := record.Fold(&c.record)
			msg := stock(t, "id", metadata, payload)
			require.Equal(t, len(c.want), len(msg.Metadata))
			for k, v := range c.want {
				require.Equal(t, v, msg.Metadata[k], k)
			}
			require.Equal(t, string(c.record.Value), string(msg.Payload))
		})
	}
}

func TestMetadataChangedByAnApplicationWins(t *testing.T) {
	typed := record.Header{Key: "typed", Value: []byte("7"), Type: 3}
	for name, c := range map[string]struct {
		change func(message.Metadata)
		want   func(*record.Record)
	}{
		"a changed repeated name": {
			func(m message.Metadata) { m["b"] = "3" },
			func(r *record.Record) {
				r.Headers = []record.Header{header("b", "3"), header("a", "\xff\x00"), {Key: "null"}, typed}
			},
		},
		"a changed single name keeps its place": {
			func(m message.Metadata) { m["a"] = "3" },
			func(r *record.Record) { r.Headers[1] = header("a", "3") },
		},
		"a deleted and an added name": {
			func(m message.Metadata) { delete(m, "b"); m["new"] = "1" },
			func(r *record.Record) {
				r.Headers = []record.Header{header("a", "\xff\x00"), {Key: "null"}, typed, header("new", "1")}
			},
		},
		"another key": {
			func(m message.Metadata) { m[record.KeyEntry] = "other" },
			func(r *record.Record) { r.Key = []byte("other") },
		},
		"the list removed": {
			func(m message.Metadata) { delete(m, record.HeadersEntry) },
			func(r *record.Record) {
				r.Headers = []record.Header{header("a", "\xff\x00"), header("b", "2"), header("null", ""), header("typed", "7")}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := sample()
			metadata, payload := record.Fold(sample())
			c.change(metadata)
			c.want(want)
			requireSame(t, want, record.Unfold("id-1", metadata, payload))
		})
	}
}

func TestUnreadableDeclaredEntriesAreOrdinaryHeaders(t *testing.T) {
	for entry, values := range map[string][]string{
		record.NullEntry:    {"", "0", "yes"},
		record.TimeEntry:    {"", "today", "1.5", "1.00000x", "1.-00001", "99999999999999999999"},
		record.HeadersEntry: {"%", "a=%zz", "a:1", "a:256=1", "a:x=1", "a!=1"},
	} {
		for _, value := range values {
			metadata := map[string]string{entry: value, record.EscapedPrefix + entry: "other"}
			r := record.Unfold("id", metadata, []byte("v"))
			requireSame(t, &record.Record{
				ID: "id", Value: []byte("v"),
				Headers: []record.Header{header(record.EscapedPrefix+entry, "other"), header(entry, value)},
			}, r)
		}
	}
}

func TestNullMarkCountsOnlyWhileThePayloadIsEmpty(t *testing.T) {
	metadata, _ := record.Fold(&record.Record{})
	require.Nil(t, record.Unfold("id", metadata, nil).Value)
	require.Equal(t, []byte("set"), record.Unfold("id", metadata, []byte("set")).Value)
	require.Equal(t, []byte{}, record.Unfold("id", nil, nil).Value)
}

func TestIDInTheMetadataIsTheIDOnlyWhereThereIsNone(t *testing.T) {
	metadata := map[string]string{record.IDKey: "inner", "a": "1"}
	require.Equal(t, "inner", record.Unfold("", metadata, nil).ID)
	require.Equal(t, []record.Header{header("a", "1")}, record.Unfold("inner", metadata, nil).Headers)

	metadata[record.HeadersEntry] = record.IDKey + "&a"
	require.Equal(t, []record.Header{header("a", "1")}, record.Unfold("inner", metadata, nil).Headers)
	delete(metadata, record.HeadersEntry)

	name := record.EscapedPrefix + record.IDKey
	metadata[name] = "taken"
	r := record.Unfold("outer", metadata, nil)
	require.Equal(t, "outer", r.ID)
	require.Equal(t, []record.Header{header("a", "1"), header(name, "taken"), header(record.EscapedPrefix+name, "inner")}, r.Headers)
}
