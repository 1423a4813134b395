package record_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

// withoutTypes carries headers as a broker does that has no types.
func withoutTypes(headers []record.Header) []record.Header {
	value, needed := record.FoldTypes(headers)
	wire := slices.Clone(headers)
	for i := range wire {
		wire[i].Type = record.Bytes
	}
	if needed {
		wire = append(wire, record.Header{Key: record.TypesHeader, Value: value})
	}
	return wire
}

func TestAnyTypedHeadersComeBackFromABrokerWithoutTypes(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "a", "a&b", "\xff", record.TypesHeader, record.TypesHeader})
	value := rapid.SampledFrom([]string{"", "a:3", "a:0", "a:3&a:0", "mqferry_types:7", "%FF:1", "x", ":2"})
	headers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Header {
		h := header(name.Draw(t, "name"), value.Draw(t, "value"))
		if rapid.IntRange(0, 3).Draw(t, "typed") == 0 {
			h.Type = record.Type(rapid.Uint8().Draw(t, "type"))
		}
		if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
			h.Value = nil
		}
		return h
	}), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		want := headers.Draw(t, "headers")
		wire := withoutTypes(want)
		require.Equal(t, want, record.TakeTypes(slices.Clone(wire)))

		for i := range want {
			want[i].Type = record.Bytes
		}
		require.Equal(t, want, withoutTypes(record.TakeTypes(slices.Clone(want))), "what another application wrote")
	})
}

func TestTypesAreListedByName(t *testing.T) {
	typed := record.Header{Key: "n", Value: []byte("7"), Type: record.Int32}
	void := record.Header{Key: "a b", Type: record.Void}
	for name, c := range map[string]struct {
		headers []record.Header
		want    string
		needed  bool
	}{
		"no headers":               {nil, "", false},
		"no types":                 {[]record.Header{header("a", "1"), {Key: "b"}}, "", false},
		"one of three":             {[]record.Header{header("a", "1"), typed, header("z", "1")}, "n:7", true},
		"a name to be escaped":     {[]record.Header{void, typed}, "a%20b:17&n:7", true},
		"a repeated name":          {[]record.Header{header("n", "1"), typed, header("n", "2")}, "n:0&n:7&n:0", true},
		"a header that looks so":   {[]record.Header{header("n", "1"), header(record.TypesHeader, "n:7")}, "", true},
		"a header that does not":   {[]record.Header{header("n", "1"), header(record.TypesHeader, "m:7")}, "", false},
		"one that is not the last": {[]record.Header{header(record.TypesHeader, "n:7"), header("n", "1")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			value, needed := record.FoldTypes(c.headers)
			require.Equal(t, c.needed, needed)
			require.Equal(t, c.want, string(value))
		})
	}
}

func TestUnreadableTypesAreAnOrdinaryHeader(t *testing.T) {
	for _, value := range []string{"", "n", "n:", "n:x", "n:256", "n:7=1", "%zz:7", "n:7&n:7", "m:7", "n:0", "n:07", "%6E:7"} {
		headers := []record.Header{header("n", "1"), header(record.TypesHeader, value)}
		require.Equal(t, headers, record.TakeTypes(slices.Clone(headers)), value)
	}
}

func TestTypesHaveNames(t *testing.T) {
	require.Equal(t, "bytes", record.Bytes.String())
	require.Equal(t, "uint64", record.Uint64.String())
	require.Equal(t, "void", record.Void.String())
	require.Equal(t, "type 18", record.Type(18).String())
}
