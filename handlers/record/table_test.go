package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

// kept is what a table keeps that knows only numbers: any number is written without leading zeros.
func kept(h record.Header) record.Header {
	digits := strings.TrimLeft(string(h.Value), "0")
	if h.Type == record.Int32 && digits != "" && strings.Trim(digits, "123456789") == "" {
		h.Value = []byte(digits)
		return h
	}
	h.Type = record.Bytes
	if h.Value == nil {
		h.Value = []byte{}
	}
	return h
}

func TestAnyRecordComesBackFromATable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		for i := range r.Headers {
			if rapid.IntRange(0, 3).Draw(t, "number") == 0 {
				r.Headers[i].Type = record.Int32
				r.Headers[i].Value = []byte(rapid.SampledFrom([]string{"7", "007", "12", "x", ""}).Draw(t, "digits"))
			}
		}
		entries := record.FoldTable(r, kept)
		names := map[string]bool{}
		for _, e := range entries {
			require.False(t, names[e.Key], "%q stands twice in the table", e.Key)
			names[e.Key] = true
			require.Equal(t, e, kept(e), "the table cannot hold this")
		}
		got := record.UnfoldTable(rapid.Permutation(entries).Draw(t, "order"), r.Value, kept)
		got.ID = r.ID
		requireSame(t, r, got)
	})
}

func TestTableHoldsTypesAndListsOnlyWhatItCannotHold(t *testing.T) {
	number := func(key, digits string) record.Header {
		return record.Header{Key: key, Value: []byte(digits), Type: record.Int32}
	}
	for name, c := range map[string]struct {
		headers []record.Header
		want    map[string]record.Header
	}{
		"in order": {[]record.Header{header("a", "1"), number("b", "2")}, map[string]record.Header{"a": header("a", "1"), "b": number("b", "2")}},
		"in another one": {[]record.Header{number("b", "2"), header("a", "1")}, map[string]record.Header{
			"a": header("a", "1"), "b": number("b", "2"), record.HeadersEntry: header(record.HeadersEntry, "b&a"),
		}},
		"a number with zeros": {[]record.Header{number("b", "02")}, map[string]record.Header{
			"b": number("b", "2"), record.HeadersEntry: header(record.HeadersEntry, "b:7=02"),
		}},
		"not a number": {[]record.Header{number("b", "x")}, map[string]record.Header{
			"b": header("b", "x"), record.HeadersEntry: header(record.HeadersEntry, "b:7=x"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			entries := record.FoldTable(&record.Record{Value: []byte{}, Headers: c.headers}, kept)
			require.Len(t, entries, len(c.want))
			for _, e := range entries {
				require.Equal(t, c.want[e.Key], e)
			}
		})
	}
}

func TestTableChangedByAnApplicationWins(t *testing.T) {
	number := record.Header{Key: "n", Value: []byte("7"), Type: record.Int32}
	r := &record.Record{Value: []byte{}, Headers: []record.Header{number, header("b", "1"), header("a", "1"), header("b", "2")}}
	entries := record.FoldTable(r, kept)
	for i := range entries {
		switch entries[i].Key {
		case "n":
			entries[i] = header("n", "7")
		case "b":
			entries[i].Value = []byte("3")
		}
	}
	entries = append(entries, record.Header{Key: "new", Value: []byte("8"), Type: record.Int32})
	require.Equal(t, []record.Header{
		header("n", "7"), header("b", "3"), header("a", "1"), {Key: "new", Value: []byte("8"), Type: record.Int32},
	}, record.UnfoldTable(entries, nil, kept).Headers)
}

func TestDeclaredEntryOfAnotherTypeIsReadByItsText(t *testing.T) {
	r := record.UnfoldTable([]record.Header{
		{Key: record.KeyEntry, Value: []byte("42"), Type: record.Int64},
		{Key: record.NullEntry, Type: record.Void},
		header(record.EscapedPrefix+record.NullEntry, "x"),
	}, nil, kept)
	require.Equal(t, "42", string(r.Key))
	require.Equal(t, []byte{}, r.Value)
	require.Equal(t, []record.Header{header(record.EscapedPrefix+record.NullEntry, "x"), {Key: record.NullEntry, Type: record.Void}}, r.Headers)
	require.Equal(t, []byte{}, record.UnfoldTable([]record.Header{{Key: record.KeyEntry, Type: record.Void}}, nil, kept).Key)
}
