package rabbitmq_test

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
)

// death is the header x-death as RabbitMQ makes it.
func death() []any {
	return []any{amqp.Table{
		"count": int64(2), "reason": "rejected", "queue": "orders", "exchange": "", "routing-keys": []any{"orders"},
		"time": time.Unix(1_700_000_000, 0), "original-expiration": "60000",
	}}
}

func TestFieldOfEveryTypeIsReadableTextAndComesBack(t *testing.T) {
	for _, c := range []struct {
		field any
		typ   record.Type
		text  string
	}{
		{"text \xff", record.Bytes, "text \xff"},
		{[]byte("\x00\xff"), record.ByteArray, "\x00\xff"},
		{[]byte{}, record.ByteArray, ""},
		{true, record.Bool, "true"},
		{int8(-128), record.Int8, "-128"},
		{uint8(255), record.Uint8, "255"},
		{int16(-32768), record.Int16, "-32768"},
		{uint16(65535), record.Uint16, "65535"},
		{int32(math.MinInt32), record.Int32, "-2147483648"},
		{uint32(math.MaxUint32), record.Uint32, "4294967295"},
		{int64(math.MinInt64), record.Int64, "-9223372036854775808"},
		{float32(0.1), record.Float32, "0.1"},
		{float64(1e21), record.Float64, "1e+21"},
		{math.Copysign(0, -1), record.Float64, "-0"},
		{amqp.Decimal{Scale: 2, Value: 12345}, record.Decimal, "123.45"},
		{amqp.Decimal{Scale: 3, Value: -5}, record.Decimal, "-0.005"},
		{amqp.Decimal{Scale: 2, Value: 100}, record.Decimal, "1.00"},
		{amqp.Decimal{Value: 7}, record.Decimal, "7"},
		{amqp.Decimal{Scale: 255, Value: 1}, record.Decimal, "0." + strings.Repeat("0", 254) + "1"},
		{time.Unix(-5, 0), record.Timestamp, "-5"},
		{amqp.Table{}, record.Table, "{}"},
		{amqp.Table{"b": int64(1), "a": "x\"\n\\ü", "c": nil}, record.Table, `{"a":"x\"\u000a\\ü","b":1,"c":null}`},
		{amqp.Table{"$int32": int64(1)}, record.Table, `{"$table":{"$int32":1}}`},
		{amqp.Table{"\xff": true}, record.Table, `{"$table":[[{"$string64":"/w=="},true]]}`},
		{[]any{}, record.Array, "[]"},
		{
			[]any{int8(1), uint8(2), int16(3), uint16(4), int32(5), uint32(6), int64(7), float32(8), float64(9), false},
			record.Array, `[{"$int8":1},{"$uint8":2},{"$int16":3},{"$uint16":4},{"$int32":5},{"$uint32":6},7,{"$float32":8},9.0,false]`,
		},
		{
			[]any{[]byte("b"), "\xff", amqp.Decimal{Scale: 1, Value: 15}, time.Unix(5, 0), []any{amqp.Table{}}},
			record.Array, `[{"$bytes":"Yg=="},{"$string64":"/w=="},{"$decimal":"1.5"},{"$time":5},[{}]]`,
		},
		{
			death(), record.Array, `[{"count":2,"exchange":"","original-expiration":"60000","queue":"orders","reason":"rejected",` +
				`"routing-keys":["orders"],"time":{"$time":1700000000}}]`,
		},
	} {
		t.Run(c.typ.String()+" "+c.text, func(t *testing.T) {
			r := read(delivered(amqp.Publishing{Headers: amqp.Table{"h": c.field}, DeliveryMode: amqp.Persistent, Timestamp: time.Unix(1, 0)}))
			require.Equal(t, []record.Header{{Key: "h", Value: []byte(c.text), Type: c.typ}}, r.Headers)
			require.Equal(t, plainField(c.field), plainField(published(t, r).Headers["h"]))
		})
	}
	r := read(delivered(amqp.Publishing{Headers: amqp.Table{"h": nil}, DeliveryMode: amqp.Persistent, Timestamp: time.Unix(1, 0)}))
	require.Equal(t, []record.Header{{Key: "h", Type: record.Void}}, r.Headers)
	field, there := published(t, r).Headers["h"]
	require.True(t, there)
	require.Nil(t, field)
}

// RabbitMQ closes the connection over these two, and amqp091 over fields deeper and larger than it reads.
func TestFieldThatNobodyCanReadIsSentAsAString(t *testing.T) {
	deep := strings.Repeat("[", 33) + strings.Repeat("]", 33)
	many := "[" + strings.Repeat("1,", 8192) + "1]"
	for _, h := range []record.Header{
		{Type: record.Float64, Value: []byte("NaN")},
		{Type: record.Float32, Value: []byte("-Inf")},
		{Type: record.Array, Value: []byte(deep)},
		{Type: record.Array, Value: []byte(many)},
		{Type: record.Table, Value: []byte(`{"` + strings.Repeat("n", 256) + `":1}`)},
		{Type: record.Array, Value: []byte("{}")},
		{Type: record.Table, Value: []byte("[]")},
		{Type: record.Table, Value: []byte("{} {}")},
		{Type: record.Int8, Value: []byte("128")},
		{Type: record.Uint64, Value: []byte("1")},
		{Type: record.Decimal, Value: []byte("1.5.5")},
		{Type: record.Void, Value: []byte("x")},
		{Type: 200, Value: []byte("x")},
	} {
		h.Key = "h"
		r := &record.Record{Value: []byte{}, Headers: []record.Header{h}, Time: time.Unix(1, 0)}
		d := published(t, r)
		require.Equal(t, string(h.Value), d.Headers["h"], "%v", h.Type)
		requireSame(t, r, read(d))
	}
	fits := strings.Repeat("[", 32) + strings.Repeat("]", 32)
	d := published(t, &record.Record{Headers: []record.Header{{Key: "h", Type: record.Array, Value: []byte(fits)}}})
	require.IsType(t, []any{}, d.Headers["h"])
}

func TestNotANumberIsReadButSentAsAString(t *testing.T) {
	for field, text := range map[any]string{
		math.Inf(-1): "-Inf", float32(math.Inf(1)): "+Inf", math.NaN(): "NaN", float32(math.NaN()): "NaN",
	} {
		r := read(delivered(amqp.Publishing{Headers: amqp.Table{"a": field, "b": []any{field}}}))
		require.Equal(t, text, string(r.Headers[0].Value))
		require.Contains(t, string(r.Headers[1].Value), `"`+text+`"`)
		require.Equal(t, text, published(t, r).Headers["a"])
	}
}

func TestTextThatAHandWroteIsTheFieldItMeans(t *testing.T) {
	for text, want := range map[string]any{
		` { "a" : 1.0, "b": [true] } `:         amqp.Table{"a": 1.0, "b": []any{true}},
		`{"$int8":300}`:                        amqp.Table{"$int8": int64(300)},
		`{"$int8":"1"}`:                        amqp.Table{"$int8": "1"},
		`{"$unknown":1}`:                       amqp.Table{"$unknown": int64(1)},
		`{"$table":[["a",1],["b"]]}`:           amqp.Table{"$table": []any{[]any{"a", int64(1)}, []any{"b"}}},
		`{"$bytes":"?"}`:                       amqp.Table{"$bytes": "?"},
		`{"$int32":1,"b":2}`:                   amqp.Table{"$int32": int64(1), "b": int64(2)},
		`{"a":99999999999999999999}`:           amqp.Table{"a": 1e20},
		`{"a":{"$int32":5},"a":{"$uint16":6}}`: amqp.Table{"a": uint16(6)},
	} {
		r := &record.Record{Value: []byte{}, Headers: []record.Header{{Key: "h", Type: record.Table, Value: []byte(text)}}, Time: time.Unix(1, 0)}
		d := published(t, r)
		require.Equal(t, want, d.Headers["h"], text)
		requireSame(t, r, read(d))
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"{}", "[]", `"s"`, "1", "-0.0", "1e400", `{"$time":5}`, `{"$table":[["a",1]]}`, `{"$table":{"$x":[{}]}}`, `{"$string64":"/w=="}`, "[[[", `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		field, ok := rabbitmq.ParseJSON(text)
		if !ok {
			return
		}
		require.NoError(t, amqp.Table{"h": field}.Validate())
		canonical := rabbitmq.AppendJSON(nil, field)
		again, ok := rabbitmq.ParseJSON(canonical)
		require.True(t, ok, "%s", canonical)
		require.Equal(t, plainField(field), plainField(again))
		require.Equal(t, string(canonical), string(rabbitmq.AppendJSON(nil, again)))
	})
}
