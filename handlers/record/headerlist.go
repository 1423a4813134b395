package record

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
)

// A list of headers is written as "name&name=value&name!": in order, joined by "&", everything outside
// [A-Za-z0-9._~-] as %XX. "!" is null. ":3" before "=" or "!" is the type. A name alone has its value, and its
// type if the map has types, in the metadata entry of that name, where applications see it anyway; the others repeat it, so that a change shows.

// plain reports whether a map holds headers exactly, given that the reader sorts it and that stored is what it keeps of
// a header.
func plain(headers []Header, stored func(Header) Header) bool {
	for i := range headers {
		h := &headers[i]
		if i > 0 && headers[i-1].Key >= h.Key || !same(stored(*h), *h) {
			return false
		}
	}
	return true
}

func same(a, b Header) bool {
	return a.Type == b.Type && (a.Value == nil) == (b.Value == nil) && bytes.Equal(a.Value, b.Value)
}

func formatHeaders(headers []Header, stored func(Header) Header) []byte {
	n := 0
	for i := range headers {
		n += len(headers[i].Key) + 8
	}
	b := make([]byte, 0, n)
	x := newIndex(headers)
	for i := range headers {
		h := &headers[i]
		if i > 0 {
			b = append(b, '&')
		}
		b = appendEscaped(b, h.Key)
		if x.first(h.Key) == x.last(h.Key) && same(stored(*h), *h) {
			continue
		}
		if h.Type != Bytes {
			b = append(b, ':')
			b = strconv.AppendUint(b, uint64(h.Type), 10)
		}
		if h.Value == nil {
			b = append(b, '!')
			continue
		}
		b = append(b, '=')
		b = appendEscaped(b, string(h.Value))
	}
	return b
}

func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == '~', c == '-':
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

// listedHeader is a header as the list has it.
type listedHeader struct {
	Header
	elsewhere bool // the value is in the metadata
}

func parseHeaders(s string) ([]listedHeader, bool) {
	headers := make([]listedHeader, 0, strings.Count(s, "&")+1)
	for item := range strings.SplitSeq(s, "&") {
		h, ok := parseHeader(item)
		if !ok {
			return nil, false
		}
		headers = append(headers, h)
	}
	return headers, true
}

func parseHeader(item string) (h listedHeader, ok bool) {
	name, value, hasValue := strings.Cut(item, "=")
	name, null := strings.CutSuffix(name, "!")
	name, typ, hasType := strings.Cut(name, ":")
	if hasValue && null || hasType && !hasValue && !null {
		return h, false
	}
	var err error
	if h.Key, err = url.PathUnescape(name); err != nil {
		return h, false
	}
	if hasType {
		n, err := strconv.ParseUint(typ, 10, 8)
		if err != nil {
			return h, false
		}
		h.Type = Type(n)
	}
	if hasValue {
		v, err := url.PathUnescape(value)
		if err != nil {
			return h, false
		}
		h.Value = []byte(v)
	}
	h.elsewhere = !hasValue && !null
	return h, true
}

// listed gives the headers of a list, with the values that are in the metadata put in by header.
func listed[V any](list []listedHeader, metadata map[string]V, header func(string, V) Header) []Header {
	headers := make([]Header, len(list))
	for i := range list {
		headers[i] = list[i].Header
		if v, ok := metadata[headers[i].Key]; ok && list[i].elsewhere {
			headers[i] = header(headers[i].Key, v)
		}
	}
	return headers
}
