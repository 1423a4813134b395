package config

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// Secret is a text that no log, error, dump or format shows: whatever prints it prints "xxxxx", and nothing where it is empty.
// Only Reveal returns it.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "xxxxx", or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "xxxxx"
}

// GoString returns the quoted String.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format writes String whatever the verb is; %q and %#v quote it.
func (s Secret) Format(state fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || verb == 'v' && state.Flag('#') {
		text = s.GoString()
	}
	// A failing writer is the business of whoever called fmt.
	_, _ = io.WriteString(state, text)
}

// UnmarshalText takes any text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// MarshalText returns String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns the quoted String.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(s.GoString()), nil }

// MarshalYAML returns String.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue returns String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
