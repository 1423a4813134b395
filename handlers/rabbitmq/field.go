package rabbitmq

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/record"
)

// What amqp091 reads; it ends the connection when there is more.
const (
	maxDepth    = 32
	maxElements = 8192
	maxShort    = 255 // bytes of a short string: a name, a property
)

// typeOf gives the type of what amqp091 made of a field.
func typeOf(field any) record.Type {
	switch field.(type) {
	case nil:
		return record.Void
	case []byte:
		return record.ByteArray
	case bool:
		return record.Bool
	case int8:
		return record.Int8
	case uint8:
		return record.Uint8
	case int16:
		return record.Int16
	case uint16:
		return record.Uint16
	case int32:
		return record.Int32
	case uint32:
		return record.Uint32
	case int64:
		return record.Int64
	case float32:
		return record.Float32
	case float64:
		return record.Float64
	case amqp.Decimal:
		return record.Decimal
	case time.Time:
		return record.Timestamp
	case amqp.Table:
		return record.Table
	case []any:
		return record.Array
	default: // A string, and there is nothing else.
		return record.Bytes
	}
}

// appendText adds the text of a field as it stands in a header.
func appendText(b []byte, field any) []byte {
	switch v := field.(type) {
	case string:
		return append(b, v...)
	case []byte:
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	case int8:
		return strconv.AppendInt(b, int64(v), 10)
	case uint8:
		return strconv.AppendUint(b, uint64(v), 10)
	case int16:
		return strconv.AppendInt(b, int64(v), 10)
	case uint16:
		return strconv.AppendUint(b, uint64(v), 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case uint32:
		return strconv.AppendUint(b, uint64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float32:
		return strconv.AppendFloat(b, float64(v), 'g', -1, 32)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case amqp.Decimal:
		return appendDecimal(b, v)
	case time.Time:
		return strconv.AppendInt(b, v.Unix(), 10)
	case amqp.Table, []any:
		return appendJSON(b, v)
	default:
		return b
	}
}

func appendDecimal(b []byte, d amqp.Decimal) []byte {
	n := int64(d.Value)
	if n < 0 {
		b = append(b, '-')
		n = -n
	}
	digits := strconv.FormatInt(n, 10)
	if missing := int(d.Scale) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - int(d.Scale)
	b = append(b, digits[:point]...)
	if d.Scale > 0 {
		b = append(b, '.')
	}
	return append(b, digits[point:]...)
}

func parseDecimal(s string) (amqp.Decimal, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+fraction, 10, 32)
	if err != nil || len(fraction) > math.MaxUint8 {
		return amqp.Decimal{}, false
	}
	return amqp.Decimal{Scale: uint8(len(fraction)), Value: int32(n)}, true
}

// parseField gives the field for a header of type t; false when the text is none, or one that RabbitMQ cannot take:
// NaN and the infinities make it close the connection.
func parseField(t record.Type, text []byte) (field any, ok bool) {
	switch {
	case t == record.Void:
		return nil, text == nil
	case text == nil:
		return nil, false
	case t == record.ByteArray:
		return text, true
	case t == record.Table || t == record.Array:
		field, ok = parseJSON(text)
		return field, ok && typeOf(field) == t
	}
	return parseScalar(t, string(text))
}

func parseScalar(t record.Type, s string) (any, bool) {
	var n int64
	var u uint64
	var f float64
	var err error
	switch t {
	case record.Bytes:
		return s, true
	case record.Bool:
		v, err := strconv.ParseBool(s)
		return v, err == nil
	case record.Int8:
		n, err = strconv.ParseInt(s, 10, 8)
		return int8(n), err == nil
	case record.Uint8:
		u, err = strconv.ParseUint(s, 10, 8)
		return uint8(u), err == nil
	case record.Int16:
		n, err = strconv.ParseInt(s, 10, 16)
		return int16(n), err == nil
	case record.Uint16:
		u, err = strconv.ParseUint(s, 10, 16)
		return uint16(u), err == nil
	case record.Int32:
		n, err = strconv.ParseInt(s, 10, 32)
		return int32(n), err == nil
	case record.Uint32:
		u, err = strconv.ParseUint(s, 10, 32)
		return uint32(u), err == nil
	case record.Int64:
		n, err = strconv.ParseInt(s, 10, 64)
		return n, err == nil
	case record.Float32:
		f, err = strconv.ParseFloat(s, 32)
		return float32(f), err == nil && finite(f)
	case record.Float64:
		f, err = strconv.ParseFloat(s, 64)
		return f, err == nil && finite(f)
	case record.Decimal:
		return parseDecimal(s)
	case record.Timestamp:
		n, err = strconv.ParseInt(s, 10, 64)
		return time.Unix(n, 0), err == nil
	default: // Uint64 among them: there is no such field.
		return nil, false
	}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// stored is what a reader gets back of a header that is written to RabbitMQ: the header itself if a field can hold it, its
// text in the usual form if that is the same field, and otherwise a string.
func stored(h record.Header) record.Header {
	if h.Type != record.Bytes {
		if field, ok := parseField(h.Type, h.Value); ok {
			if field == nil || h.Type == record.ByteArray {
				return h
			}
			var space [64]byte
			if text := appendText(space[:0], field); string(text) != string(h.Value) {
				h.Value = slices.Clone(text)
			}
			return h
		}
		h.Type = record.Bytes
	}
	if h.Value == nil {
		h.Value = []byte{}
	}
	return h
}
