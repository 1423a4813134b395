package record

import "strings"

const (
	// FieldsHeader marks the record of a Redis entry that is not in Watermill's format. It stands where the payload
	// field stood and its value is that field's name; without a payload field it comes first and is empty.
	FieldsHeader = "mqferry_fields"

	payloadField = "payload"
)

// UnfoldFields gives the record of a Redis entry of any shape, from its fields as name, value, name, value. The first
// field called "payload" is the value; every other one is a header, in order, bytes and repeats kept. Without a
// payload field the value is empty, not null. A field called IDKey also gives the ID. A field whose name means
// something else in a header gets EscapedPrefix before its name. Time and Source are left to the caller.
func UnfoldFields(fields []string) *Record {
	r := &Record{Value: []byte{}, Headers: make([]Header, 0, len(fields)/2+1)}
	if !hasField(fields, payloadField) {
		r.Headers = append(r.Headers, Header{Key: FieldsHeader, Value: []byte{}})
	}
	found, identified := false, false
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], []byte(fields[i+1])
		if name == IDKey && !identified {
			r.ID, identified = fields[i+1], true
		}
		if name == payloadField && !found {
			found = true
			r.Value = value
			r.Headers = append(r.Headers, Header{Key: FieldsHeader, Value: []byte(payloadField)})
			continue
		}
		r.Headers = append(r.Headers, Header{Key: escapeField(name), Value: value})
	}
	return r
}

// FoldFields gives back the fields that UnfoldFields made r from, with what middleware changed, and true. It gives
// nil and false for a record that is not from such an entry or has become more than its fields can hold (a key, a null, a
// payload where there was none): Fold takes those. The fields hold the ID only if there is one called IDKey, and no time.
func FoldFields(r *Record) (fields []string, ok bool) {
	mark, ok := fieldsMark(r)
	if !ok {
		return nil, false
	}
	fields = make([]string, 0, 2*len(r.Headers))
	identified := false
	for i := range r.Headers {
		h := &r.Headers[i]
		if i == mark {
			if len(h.Value) > 0 {
				fields = append(fields, payloadField, string(r.Value))
			}
			continue
		}
		name, value := unescapeField(h.Key), string(h.Value)
		if name == IDKey && !identified {
			value = r.ID
		}
		identified = identified || name == IDKey
		fields = append(fields, name, value)
	}
	return fields, true
}

// fieldsMark finds the mark of a record that its fields hold entirely.
func fieldsMark(r *Record) (int, bool) {
	x := newIndex(r.Headers)
	mark := x.first(FieldsHeader)
	if mark < 0 || mark != x.last(FieldsHeader) || r.Key != nil || r.Value == nil {
		return 0, false
	}
	other := x.first(payloadField)
	switch string(r.Headers[mark].Value) {
	case "":
		if mark != 0 || len(r.Headers) == 1 || len(r.Value) > 0 || other >= 0 {
			return 0, false
		}
	case payloadField:
		if other >= 0 && other < mark {
			return 0, false
		}
	default:
		return 0, false
	}
	for i := range r.Headers {
		if r.Headers[i].Value == nil || r.Headers[i].Type != Bytes {
			return 0, false
		}
	}
	return mark, true
}

func hasField(fields []string, name string) bool {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == name {
			return true
		}
	}
	return false
}

func isReservedField(name string) bool {
	base := unescaped(name)
	return base == IDKey || base == FieldsHeader
}

func escapeField(name string) string {
	if isReservedField(name) {
		return EscapedPrefix + name
	}
	return name
}

func unescapeField(name string) string {
	if rest, ok := strings.CutPrefix(name, EscapedPrefix); ok && isReservedField(rest) {
		return rest
	}
	return name
}
