package record_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

func header(key, value string) record.Header {
	return record.Header{Key: key, Value: []byte(value)}
}

// sample has one of everything that can be lost.
func sample() *record.Record {
	return &record.Record{
		ID:    "id-1",
		Key:   []byte("k\x00\xff"),
		Value: []byte("payload"),
		Headers: []record.Header{
			header("b", "1"), header("a", "\xff\x00"),
			{Key: "null"},
			header("b", "2"),
			{Key: "typed", Value: []byte("7"), Type: 3},
		},
		Time:   time.UnixMilli(1_700_000_000_123),
		Source: record.Source{DataCenter: "shanghai", Topic: "orders", Lane: "3", Position: "1234"},
	}
}

// anyRecord draws records with binary keys, names and values, nulls, repeats, and names that the codecs use themselves.
func anyRecord() *rapid.Generator[*record.Record] {
	name := rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "a", "b", "payload", "metadata", "mqferry_", "mqferry_other", record.KeyEntry, record.NullEntry,
			record.TimeEntry, record.HeadersEntry, record.FieldsHeader, record.EscapedPrefix,
			record.EscapedPrefix + "a", record.EscapedPrefix + record.KeyEntry, record.EscapedPrefix + record.IDKey,
			record.EscapedPrefix + record.EscapedPrefix + record.NullEntry, "a=b&c!:1", "ключ", "\xff\x00",
		}),
		rapid.StringN(0, 5, 10),
	)
	maybeBytes := rapid.OneOf(rapid.Just[[]byte](nil), rapid.Just([]byte{}), rapid.Just([]byte("1")), rapid.SliceOfN(rapid.Byte(), 0, 8))
	headers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Header {
		return record.Header{
			Key: name.Draw(t, "name"), Value: maybeBytes.Draw(t, "value"),
			Type: record.Type(rapid.OneOf(rapid.Just[uint8](0), rapid.Uint8()).Draw(t, "type")),
		}
	}), 0, 40)
	return rapid.Custom(func(t *rapid.T) *record.Record {
		r := &record.Record{
			ID: rapid.String().Draw(t, "id"), Key: maybeBytes.Draw(t, "key"), Value: maybeBytes.Draw(t, "value"),
			Headers: headers.Draw(t, "headers"),
		}
		if rapid.Bool().Draw(t, "timed") {
			r.Time = time.UnixMilli(rapid.Int64().Draw(t, "ms")).Add(time.Duration(rapid.IntRange(0, 999_999).Draw(t, "ns")))
		}
		return r
	})
}

// requireSame compares all that a record holds except where it was read.
func requireSame(t require.TestingT, want, got *record.Record) {
	require.Equal(t, want.ID, got.ID, "id")
	require.Equal(t, want.Key, got.Key, "key")
	require.Equal(t, want.Value, got.Value, "value")
	require.Equal(t, len(want.Headers), len(got.Headers), "number of headers")
	for i := range want.Headers {
		require.Equal(t, want.Headers[i], got.Headers[i], "header %d", i)
	}
	require.Equal(t, want.Time.IsZero(), got.Time.IsZero(), "time unknown")
	require.True(t, want.Time.Equal(got.Time), "time: want %v, got %v", want.Time, got.Time)
}

func TestDerivedIDNamesThePlaceAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		source record.Source
		want   string
	}{
		"with a lane":        {record.Source{DataCenter: "shanghai", Topic: "orders", Lane: "3", Position: "1234"}, "shanghai/orders/3@1234"},
		"without a lane":     {record.Source{DataCenter: "virginia", Topic: "orders", Position: "1700-0"}, "virginia/orders@1700-0"},
		"without a position": {record.Source{DataCenter: "frankfurt", Topic: "orders", Lane: "orders"}, ""},
		"without anything":   {record.Source{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, record.DeriveID(c.source))
		})
	}
}

func TestSizeCountsKeyValueAndHeaders(t *testing.T) {
	r := &record.Record{Key: []byte("ab"), Value: []byte("cde"), Headers: []record.Header{header("f", "gh"), {Key: "ijk"}}}
	require.Equal(t, 2+3+3+3, r.Size())
	require.Zero(t, (&record.Record{ID: "not counted"}).Size())
}

func TestMetadataIsTheViewWithTheLastOfRepeatsAndNullAsEmpty(t *testing.T) {
	want := message.Metadata{"b": "2", "a": "\xff\x00", "null": "", "typed": "7"}
	require.Equal(t, want, record.Metadata(sample()))
	require.NotNil(t, record.Metadata(&record.Record{}))
}

func TestMessageIsMadeFromTheRecordAndCarriesIt(t *testing.T) {
	type other struct{}
	parent, cancel := context.WithCancel(context.WithValue(context.Background(), other{}, "kept"))
	many := &record.Record{}
	for i := range 20 {
		many.Headers = append(many.Headers, header(string(rune('a'+i)), "v"))
	}
	for name, r := range map[string]*record.Record{"of every kind": sample(), "with nothing": {}, "with many headers": many} {
		t.Run(name, func(t *testing.T) {
			msg := r.Message(parent)
			require.Equal(t, r.ID, msg.UUID)
			require.Equal(t, r.Value, []byte(msg.Payload))
			require.Equal(t, record.Metadata(r), msg.Metadata)
			require.Same(t, r, record.From(msg.Context()))
			require.Equal(t, "kept", msg.Context().Value(other{}))
			msg.Ack()
			require.NotNil(t, msg.Acked())
		})
	}
	ctx := record.With(parent, sample())
	cancel()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Nil(t, record.From(parent))
}

func TestAnOwnContextTypeCanCarryTheRecord(t *testing.T) {
	r := sample()
	own := context.WithValue(context.Background(), record.Key(), r)
	require.Same(t, r, record.From(own))
	require.Same(t, own, r.Message(own).Context())
	other := sample()
	require.Same(t, other, record.From(other.Message(own).Context()))
}

func TestAppendingToThePayloadDoesNotWriteBehindIt(t *testing.T) {
	fetched := []byte("onetwo")
	r := &record.Record{Value: fetched[:3]}
	msg := r.Message(context.Background())
	msg.Payload = append(msg.Payload, "XXX"...)
	require.Equal(t, "oneXXX", string(msg.Payload))
	require.Equal(t, "onetwo", string(fetched))
}
