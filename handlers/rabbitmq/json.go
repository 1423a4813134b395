package rabbitmq

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/record"
)

// Tables and arrays are written as JSON that holds them exactly. What JSON has stands for itself: a string is a field S (if it is
// UTF-8), true, false and null are t and V, a number is l, with a point or an exponent d. Everything else is an object of one key
// that begins with "$" and names the type. "$table" holds a table that would look like one of those, as an object, or, when a
// name is not UTF-8, as pairs of name and value.
const (
	tagString    = "$string64"
	tagBytes     = "$bytes"
	tagTimestamp = "$time"
	tagTable     = "$table"
)

// appendJSON writes a field and everything in it, names sorted.
func appendJSON(b []byte, field any) []byte {
	switch v := field.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		if utf8.ValidString(v) {
			return appendQuoted(b, v)
		}
		return appendTagged(b, tagString, appendBase64(nil, []byte(v)))
	case []byte:
		return appendTagged(b, tagBytes, appendBase64(nil, v))
	case bool, int64:
		return appendText(b, v)
	case float64:
		text := appendText(nil, v)
		switch {
		case !finite(v):
			return appendTagged(b, tagOf(record.Float64), appendQuoted(nil, string(text)))
		case !bytes.ContainsAny(text, ".e"):
			text = append(text, ".0"...)
		}
		return append(b, text...)
	case float32:
		if text := appendText(nil, v); finite(float64(v)) {
			return appendTagged(b, tagOf(record.Float32), text)
		}
		return appendTagged(b, tagOf(record.Float32), appendQuoted(nil, string(appendText(nil, v))))
	case amqp.Decimal:
		return appendTagged(b, tagOf(record.Decimal), appendQuoted(nil, string(appendText(nil, v))))
	case time.Time:
		return appendTagged(b, tagTimestamp, appendText(nil, v))
	case amqp.Table:
		return appendTable(b, v)
	case []any:
		b = append(b, '[')
		for i, element := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, element)
		}
		return append(b, ']')
	default:
		return appendTagged(b, tagOf(typeOf(v)), appendText(nil, v))
	}
}

func tagOf(t record.Type) string { return "$" + t.String() }

func appendTagged(b []byte, tag string, value []byte) []byte {
	b = append(b, '{', '"')
	b = append(b, tag...)
	b = append(b, '"', ':')
	b = append(b, value...)
	return append(b, '}')
}

func appendBase64(b, v []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

func appendTable(b []byte, table amqp.Table) []byte {
	special, binary := false, false
	for name := range table {
		special = special || strings.HasPrefix(name, "$")
		binary = binary || !utf8.ValidString(name)
	}
	if special || binary {
		b = append(b, `{"`+tagTable+`":`...)
	}
	open, colon, end := "{", ":", "}"
	if binary {
		open, colon, end = "[[", ",", "]]"
	}
	b = append(b, open...)
	for i, name := range slices.Sorted(maps.Keys(table)) {
		switch {
		case i > 0 && binary:
			b = append(b, "],["...)
		case i > 0:
			b = append(b, ',')
		}
		b = appendJSON(b, name)
		b = append(b, colon...)
		b = appendJSON(b, table[name])
	}
	b = append(b, end...)
	if special || binary {
		b = append(b, '}')
	}
	return b
}

// appendQuoted writes a string of valid UTF-8.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// parseJSON gives the field that a JSON text stands for; false when it is not one that can be sent.
func parseJSON(text []byte) (any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, false
	}
	return fieldOf(v, 0)
}

// fieldOf makes a field of what the JSON decoder gave, depth containers deep.
func fieldOf(v any, depth int) (any, bool) {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, true
		}
		return parseScalar(record.Float64, string(v))
	case []any:
		if len(v) > maxElements || depth == maxDepth {
			return nil, false
		}
		array := make([]any, len(v))
		for i := range v {
			var ok bool
			if array[i], ok = fieldOf(v[i], depth+1); !ok {
				return nil, false
			}
		}
		return array, true
	case map[string]any:
		if field, ok := taggedField(v, depth); ok {
			return field, true
		}
		return tableOf(v, depth)
	default: // nil, bool, string
		return v, true
	}
}

func tableOf(object map[string]any, depth int) (any, bool) {
	if len(object) > maxElements || depth == maxDepth {
		return nil, false
	}
	table := make(amqp.Table, len(object))
	for name, v := range object {
		field, ok := fieldOf(v, depth+1)
		if !ok || len(name) > maxShort {
			return nil, false
		}
		table[name] = field
	}
	return table, true
}

// taggedField reads an object of one key that names a type; one whose value is not of that type is just a table.
func taggedField(object map[string]any, depth int) (any, bool) {
	if len(object) != 1 {
		return nil, false
	}
	for tag, v := range object {
		if !strings.HasPrefix(tag, "$") {
			return nil, false
		}
		switch v := v.(type) {
		case string:
			return taggedString(tag, v)
		case json.Number:
			return taggedNumber(tag, string(v))
		case map[string]any:
			if tag == tagTable {
				return tableOf(v, depth)
			}
		case []any:
			if tag == tagTable {
				return tableOfPairs(v, depth)
			}
		}
	}
	return nil, false
}

func taggedString(tag, s string) (any, bool) {
	switch tag {
	case tagString, tagBytes:
		b, err := base64.StdEncoding.DecodeString(s)
		if tag == tagString {
			return string(b), err == nil
		}
		return b, err == nil
	case tagOf(record.Decimal):
		return parseScalar(record.Decimal, s)
	}
	return nil, false
}

func taggedNumber(tag, number string) (any, bool) {
	if tag == tagTimestamp {
		return parseScalar(record.Timestamp, number)
	}
	for _, t := range [...]record.Type{
		record.Int8, record.Uint8, record.Int16, record.Uint16, record.Int32, record.Uint32, record.Float32,
	} {
		if tag == tagOf(t) {
			return parseScalar(t, number)
		}
	}
	return nil, false
}

func tableOfPairs(pairs []any, depth int) (any, bool) {
	if len(pairs) > maxElements || depth == maxDepth {
		return nil, false
	}
	table := make(amqp.Table, len(pairs))
	for _, pair := range pairs {
		p, ok := pair.([]any)
		if !ok || len(p) != 2 {
			return nil, false
		}
		key, _ := fieldOf(p[0], depth)
		name, ok := key.(string)
		if !ok || len(name) > maxShort {
			return nil, false
		}
		if table[name], ok = fieldOf(p[1], depth+1); !ok {
			return nil, false
		}
	}
	return table, true
}
