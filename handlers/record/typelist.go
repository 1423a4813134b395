package record

import (
	"net/url"
	"strconv"
	"strings"
)

// TypesHeader is the last header of a Kafka record that has typed ones: "name:type&name:type", names escaped as in
// HeadersEntry, in the order of the headers. A name that has several headers is listed once for each.
const TypesHeader = "mqferry_types"

// FoldTypes gives the value of the TypesHeader that a broker without types writes behind headers, and whether it has
// to. TakeTypes gives back the same headers.
func FoldTypes(headers []Header) (value []byte, needed bool) {
	for i := range headers {
		if headers[i].Type != Bytes {
			return formatTypes(headers, func(i int) Type { return headers[i].Type }), true
		}
	}
	// An empty one keeps the reader from taking the header before it for ours.
	_, taken := listedTypes(headers)
	return []byte{}, taken
}

// TakeTypes takes off the TypesHeader, which comes last, and gives the headers before it their types, in place. One
// that does not fit the headers before it is an ordinary header.
func TakeTypes(headers []Header) []Header {
	types, ok := listedTypes(headers)
	if !ok {
		return headers
	}
	headers = headers[:len(headers)-1]
	for i, t := range types {
		headers[i].Type = t
	}
	return headers
}

// listedTypes gives the types of all headers but the last, when that is what FoldTypes writes behind them; without
// types when it is an empty one.
func listedTypes(headers []Header) ([]Type, bool) {
	n := len(headers)
	for n > 0 && headers[n-1].Key == TypesHeader && string(headers[n-1].Value) == "" && headers[n-1].Value != nil {
		n--
	}
	if n == 0 || headers[n-1].Key != TypesHeader {
		return nil, false
	}
	types, ok := parseTypes(string(headers[n-1].Value), headers[:n-1])
	if n < len(headers) {
		types = nil
	}
	return types, ok
}

func formatTypes(headers []Header, typeOf func(int) Type) []byte {
	typed := make(map[string]struct{}, 4)
	n := 0
	for i := range headers {
		if typeOf(i) != Bytes {
			typed[headers[i].Key] = struct{}{}
			n += len(headers[i].Key) + 4
		}
	}
	b := make([]byte, 0, n)
	for i := range headers {
		if _, ok := typed[headers[i].Key]; !ok {
			continue
		}
		if len(b) > 0 {
			b = append(b, '&')
		}
		b = appendEscaped(b, headers[i].Key)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(typeOf(i)), 10)
	}
	return b
}

func parseTypes(s string, headers []Header) ([]Type, bool) {
	types := make([]Type, len(headers))
	next := 0
	for item := range strings.SplitSeq(s, "&") {
		escaped, number, _ := strings.Cut(item, ":")
		name, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, false
		}
		t, err := strconv.ParseUint(number, 10, 8)
		if err != nil {
			return nil, false
		}
		for next < len(headers) && headers[next].Key != name {
			next++
		}
		if next == len(headers) {
			return nil, false
		}
		types[next] = Type(t)
		next++
	}
	return types, string(formatTypes(headers, func(i int) Type { return types[i] })) == s
}
