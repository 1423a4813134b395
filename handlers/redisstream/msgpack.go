package redisstream

import (
	"encoding/binary"
	"math"
)

// Watermill keeps the metadata of an entry as a msgpack map of strings. These are the type bytes of it, see
// https://github.com/msgpack/msgpack/blob/master/spec.md.
const (
	packNil   = "\xc0"
	packBin8  = 0xc4
	packBin16 = 0xc5
	packBin32 = 0xc6
	packStr8  = 0xd9
	packStr16 = 0xda
	packStr32 = 0xdb
	packMap16 = 0xde
	packMap32 = 0xdf
	fixMap    = 0x80
	fixStr    = 0xa0
)

// appendMap appends m as a msgpack map, and nothing when it is empty: so does watermill-redisstream.
func appendMap(b []byte, m map[string]string) []byte {
	switch n := len(m); {
	case n == 0:
		return b
	case n < 16:
		b = append(b, byte(fixMap|n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, packMap16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, packMap32), uint32(n))
	}
	for k, v := range m {
		b = appendString(appendString(b, k), v)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, byte(fixStr|n))
	case n <= math.MaxUint8:
		b = append(b, packStr8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, packStr16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, packStr32), uint32(n))
	}
	return append(b, s...)
}

// parseMap reads what appendMap writes. It reports false for anything that is not wholly a map of strings.
func parseMap(s string) (map[string]string, bool) {
	if s == "" || s == packNil {
		return nil, true
	}
	n, s, ok := mapLength(s)
	// An entry takes two bytes at least: a length that cannot be true must not reserve memory.
	if !ok || n > len(s)/2 {
		return nil, false
	}
	m := make(map[string]string, n)
	for range n {
		var k, v string
		if k, s, ok = parseString(s); !ok {
			return nil, false
		}
		if v, s, ok = parseString(s); !ok {
			return nil, false
		}
		m[k] = v
	}
	return m, s == "" && len(m) == n
}

func mapLength(s string) (n int, rest string, ok bool) {
	switch c := s[0]; {
	case c&0xf0 == fixMap:
		return int(c & 0x0f), s[1:], true
	case c == packMap16:
		return number(s[1:], 2)
	case c == packMap32:
		return number(s[1:], 4)
	}
	return 0, "", false
}

func parseString(s string) (value, rest string, ok bool) {
	if s == "" {
		return "", "", false
	}
	n := 0
	switch c := s[0]; {
	case c&0xe0 == fixStr:
		n, s, ok = int(c&0x1f), s[1:], true
	case c == packStr8 || c == packBin8:
		n, s, ok = number(s[1:], 1)
	case c == packStr16 || c == packBin16:
		n, s, ok = number(s[1:], 2)
	case c == packStr32 || c == packBin32:
		n, s, ok = number(s[1:], 4)
	}
	if !ok || n > len(s) {
		return "", "", false
	}
	return s[:n], s[n:], true
}

// number reads a big-endian number of so many bytes.
func number(s string, bytes int) (n int, rest string, ok bool) {
	if len(s) < bytes {
		return 0, "", false
	}
	for i := range bytes {
		n = n<<8 | int(s[i])
	}
	return n, s[bytes:], true
}
