package config

import (
	"strings"
	"time"
)

// Duration is a length of time as people write it: "500ms", "20s", "1h30m". It is never negative when it comes from a file.
type Duration time.Duration

// UnmarshalText accepts what time.ParseDuration does, but nothing negative. A number needs its unit; only "0" goes without.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	value, err := time.ParseDuration(s)
	switch {
	case err == nil && value >= 0:
		*d = Duration(value)
		return nil
	case err == nil:
		return &textError{s, "is negative; a duration begins at 0"}
	case s != "" && strings.Trim(s, "0123456789.") == "":
		return &textError{s, `has no unit; write for example "20s" or "500ms"`}
	}
	return &textError{s, `is not a duration; write for example "500ms", "20s" or "1h30m"`}
}

// String returns the duration without the parts that are zero: "1h30m", not "1h30m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText returns what UnmarshalText accepts.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
