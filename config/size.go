package config

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Size is a number of bytes as people write it: "64MiB", "1GiB", "200kB", "4096". It is never negative when it comes from a file.
type Size int64

type unit struct {
	name  string
	bytes int64
}

// units are in the order in which String prefers them.
func units() []unit {
	return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}
}

// UnmarshalText accepts a number with the unit B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024) or none (bytes).
// A fraction such as "1.5GiB" is accepted where it comes to whole bytes.
func (s *Size) UnmarshalText(text []byte) error {
	written := string(text)
	number, factor := written, int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(written, u.name); ok {
			number, factor = strings.TrimRight(rest, " "), u.bytes
			break
		}
	}
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return &textError{written, `is not a size; write for example "64MiB", "200kB" or "4096"`}
	}
	bytes, ok := new(big.Rat).SetString(number)
	if !ok {
		return &textError{written, `is not a size; write for example "64MiB", "200kB" or "4096"`}
	}
	bytes.Mul(bytes, new(big.Rat).SetInt64(factor))
	if !bytes.IsInt() {
		return &textError{written, "is not a whole number of bytes"}
	}
	if bytes.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0 {
		return &textError{written, "is too large for a size"}
	}
	*s = Size(bytes.Num().Int64())
	return nil
}

// String returns the size in the largest unit that shows it exactly, powers of 1024 first: "64MiB", "200kB", "4097B".
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for _, u := range units() {
		if int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText returns what UnmarshalText accepts.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
