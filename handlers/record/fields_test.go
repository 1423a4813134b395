package record_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

func anyFields() *rapid.Generator[[]string] {
	name := rapid.OneOf(rapid.SampledFrom([]string{
		"", "a", "payload", "metadata", record.FieldsHeader, record.IDKey, record.KeyEntry, record.EscapedPrefix,
		record.EscapedPrefix + "a", record.EscapedPrefix + record.IDKey, record.EscapedPrefix + record.EscapedPrefix + record.FieldsHeader,
	}), rapid.String())
	return rapid.Custom(func(t *rapid.T) []string {
		var fields []string
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			fields = append(fields, name.Draw(t, "name"), string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "value")))
		}
		return fields
	})
}

func TestAnyFieldsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := anyFields().Draw(t, "fields")
		r := record.UnfoldFields(fields)
		got, ok := record.FoldFields(r)
		require.True(t, ok)
		require.Equal(t, fields, got)

		metadata, payload := record.Fold(r)
		requireSame(t, r, record.Unfold(r.ID, metadata, payload))
	})
}

func TestAnyRecordThatFitsFieldsComesBackFromThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		r.Headers = append(r.Headers, header(record.FieldsHeader, rapid.SampledFrom([]string{"", "payload", "x"}).Draw(t, "mark")))
		r.Headers = rapid.Permutation(r.Headers).Draw(t, "order")
		fields, ok := record.FoldFields(r)
		if !ok {
			return
		}
		got := record.UnfoldFields(fields)
		got.ID, got.Time = r.ID, r.Time
		for i := range r.Headers {
			if r.Headers[i].Key == record.EscapedPrefix+record.IDKey { // The field that holds the id follows it.
				r.Headers[i].Value = []byte(r.ID)
				break
			}
		}
		requireSame(t, r, got)
	})
}

func TestFieldsBecomeHeadersAndThePayloadFieldTheValue(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string
		want   record.Record
	}{
		"no payload field": {
			[]string{"temp", "20", "id", "7", "temp", "21"},
			record.Record{Value: []byte{}, Headers: []record.Header{
				header("mqferry_fields", ""), header("temp", "20"), header("id", "7"), header("temp", "21"),
			}},
		},
		"a payload field in the middle": {
			[]string{"a", "1", "payload", "\xff", "b", "2", "payload", "second"},
			record.Record{Value: []byte("\xff"), Headers: []record.Header{
				header("a", "1"), header("mqferry_fields", "payload"), header("b", "2"), header("payload", "second"),
			}},
		},
		"fields of reserved names": {
			[]string{record.IDKey, "id-7", "mqferry_fields", "x", "payload", ""},
			record.Record{ID: "id-7", Value: []byte{}, Headers: []record.Header{
				header("mqferry_escaped_"+record.IDKey, "id-7"), header("mqferry_escaped_mqferry_fields", "x"),
				header("mqferry_fields", "payload"),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			requireSame(t, &c.want, record.UnfoldFields(c.fields))
		})
	}
}

func TestFieldsFollowWhatMiddlewareChanged(t *testing.T) {
	msg := record.UnfoldFields([]string{record.IDKey, "id-7", "a", "1", "payload", "old", "b", "2"}).Message(context.Background())
	msg.UUID = "id-8"
	msg.Payload = []byte("new")
	delete(msg.Metadata, "a")
	msg.Metadata.Set("b", "3")
	msg.Metadata.Set("stamp", "x")
	fields, ok := record.FoldFields(record.Outgoing(msg))
	require.True(t, ok)
	require.Equal(t, []string{record.IDKey, "id-8", "payload", "new", "b", "3", "stamp", "x"}, fields)
}

func TestRecordsThatFieldsCannotHoldAreLeftToFold(t *testing.T) {
	mark, payload := header(record.FieldsHeader, ""), header(record.FieldsHeader, "payload")
	for name, r := range map[string]record.Record{
		"not from fields":                   {Value: []byte("v"), Headers: []record.Header{header("a", "1")}},
		"a key":                             {Key: []byte("k"), Value: []byte{}, Headers: []record.Header{mark, header("a", "1")}},
		"a null value":                      {Headers: []record.Header{payload}},
		"a payload where there was none":    {Value: []byte("v"), Headers: []record.Header{mark, header("a", "1")}},
		"a null header":                     {Value: []byte("v"), Headers: []record.Header{payload, {Key: "a"}}},
		"a typed header":                    {Value: []byte("v"), Headers: []record.Header{payload, {Key: "a", Value: []byte("1"), Type: 1}}},
		"two marks":                         {Value: []byte("v"), Headers: []record.Header{payload, payload}},
		"no field at all":                   {Value: []byte{}, Headers: []record.Header{mark}},
		"a mark of somebody else":           {Value: []byte("v"), Headers: []record.Header{header(record.FieldsHeader, "x")}},
		"a payload header before the mark":  {Value: []byte("v"), Headers: []record.Header{header("payload", "1"), payload}},
		"a payload header and a bare mark":  {Value: []byte{}, Headers: []record.Header{mark, header("payload", "1")}},
		"a bare mark that is not the first": {Value: []byte{}, Headers: []record.Header{header("a", "1"), mark}},
	} {
		t.Run(name, func(t *testing.T) {
			fields, ok := record.FoldFields(&r)
			require.False(t, ok)
			require.Nil(t, fields)
			metadata, value := record.Fold(&r)
			requireSame(t, &r, record.Unfold("", metadata, value))
		})
	}
}
