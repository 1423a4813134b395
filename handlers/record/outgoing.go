package record

import (
	"bytes"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Outgoing gives the record to publish for msg. When middleware touched nothing it is the record that msg's context
// carries, the same pointer. Otherwise it is a copy in which everything untouched is as it was, bytes, order,
// repeats, types and nulls included, and in which
//   - a changed metadata key is one header of type Bytes where the first of that name stood,
//   - a deleted key is gone with all its repeats, and new keys follow in sorted order,
//   - the payload is msg's; nil makes it null,
//   - the id is msg's UUID. Metadata under IDKey never becomes a header: a message has one id.
//
// Key, Time and Source are always the record's. A message whose context carries no record gets one made from itself.
// Metadata is compared by its bytes: setting a key to what it already was changes nothing.
func Outgoing(msg *message.Message) *Record {
	r := From(msg.Context())
	if r == nil {
		return &Record{ID: msg.UUID, Value: msg.Payload, Headers: merge(nil, msg.Metadata, sameText, bytesHeader)}
	}
	sameHeaders := unchanged(r.Headers, msg.Metadata)
	sameValue := (r.Value == nil) == (msg.Payload == nil) && bytes.Equal(r.Value, msg.Payload)
	if sameHeaders && sameValue && msg.UUID == r.ID {
		return r
	}
	out := *r
	out.ID = msg.UUID
	if !sameValue {
		out.Value = msg.Payload
	}
	if !sameHeaders {
		out.Headers = merge(r.Headers, msg.Metadata, sameText, bytesHeader)
	}
	return &out
}

// unchanged reports whether m is still the view over headers.
func unchanged(headers []Header, m map[string]string) bool {
	if len(m) > len(headers) {
		return false
	}
	x := newIndex(headers)
	names := 0
	for i := range headers {
		h := &headers[i]
		if x.last(h.Key) != i {
			continue
		}
		if v, ok := m[h.Key]; !ok || v != string(h.Value) {
			return false
		}
		names++
	}
	return names == len(m)
}

func sameText(h *Header, v string) bool { return v == string(h.Value) }

func bytesHeader(name, v string) Header { return Header{Key: name, Value: []byte(v)} }

// merge gives headers as m wants them; what m did not change stays as it is. Same says whether v is what m had for h, and
// header makes a header of what m has now.
func merge[V any](headers []Header, m map[string]V, same func(h *Header, v V) bool, header func(string, V) Header) []Header {
	out := make([]Header, 0, max(len(headers), len(m)))
	x := newIndex(headers)
	names := 0
	for i := range headers {
		h := headers[i]
		v, ok := m[h.Key]
		if !ok {
			continue
		}
		first := x.first(h.Key) == i
		if first {
			names++
		}
		if same(&headers[x.last(h.Key)], v) {
			out = append(out, h)
		} else if first {
			out = append(out, header(h.Key, v))
		}
	}
	if names == len(m) {
		return out
	}
	known := len(out)
	for k, v := range m {
		if k != IDKey && x.first(k) < 0 {
			out = append(out, header(k, v))
		}
	}
	slices.SortFunc(out[known:], byName)
	return out
}

func byName(a, b Header) int {
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return 0
}
