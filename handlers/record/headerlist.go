package record

import (
	"net/url"
	"strconv"
	"strings"
)

// A list of headers is written as "name&name=value&name!": in order, joined by "&", everything outside
// [A-Za-z0-9._~-] as %XX. "!" is null. ":3" before "=" or "!" is the type. A name alone has its value in the
// metadata entry of that name, where applications see it anyway; the others repeat it, so that a change shows.

// plain reports whether a map of strings holds headers exactly, given that the reader sorts it.
func plain(headers []Header) bool {
	for i := range headers {
		h := &headers[i]
		if h.Value == nil || h.Type != Bytes || i > 0 && headers[i-1].Key >= h.Key {
			return false
		}
	}
	return true
}

func formatHeaders(headers []Header) string {
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
		if h.Type != Bytes {
			b = append(b, ':')
			b = strconv.AppendUint(b, uint64(h.Type), 10)
		}
		switch {
		case h.Value == nil:
			b = append(b, '!')
		case h.Type != Bytes || x.first(h.Key) != x.last(h.Key):
			b = append(b, '=')
			b = appendEscaped(b, string(h.Value))
		}
	}
	return string(b)
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

// elsewhere marks a header whose value is in the metadata, until fill has put it in.
const elsewhere Type = 255

func parseHeaders(s string) ([]Header, bool) {
	headers := make([]Header, 0, strings.Count(s, "&")+1)
	for item := range strings.SplitSeq(s, "&") {
		h, ok := parseHeader(item)
		if !ok {
			return nil, false
		}
		headers = append(headers, h)
	}
	return headers, true
}

func parseHeader(item string) (Header, bool) {
	name, value, hasValue := strings.Cut(item, "=")
	name, null := strings.CutSuffix(name, "!")
	name, typ, hasType := strings.Cut(name, ":")
	if hasValue && null || hasType && !hasValue && !null {
		return Header{}, false
	}
	var h Header
	var err error
	if h.Key, err = url.PathUnescape(name); err != nil {
		return Header{}, false
	}
	if hasType {
		n, err := strconv.ParseUint(typ, 10, 8)
		if err != nil || Type(n) == elsewhere {
			return Header{}, false
		}
		h.Type = Type(n)
	}
	if null {
		return h, true
	}
	if !hasValue {
		h.Type = elsewhere
		return h, true
	}
	v, err := url.PathUnescape(value)
	if err != nil {
		return Header{}, false
	}
	h.Value = []byte(v)
	return h, true
}

// fill puts the values that are in the metadata into the listed headers.
func fill(listed []Header, names map[string]string) []Header {
	for i := range listed {
		if listed[i].Type == elsewhere {
			listed[i].Type = Bytes
			listed[i].Value = []byte(names[listed[i].Key])
		}
	}
	return listed
}
