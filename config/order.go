package config

import (
	"strings"
	"time"
)

// Order says how much order a route pays for.
type Order string

const (
	// OrderLane publishes the messages of a lane in the order in which they were fetched, with many of them on the wire.
	OrderLane Order = "lane"
	// OrderStrict keeps one message of a lane on the wire, so that not even a refused one can be overtaken.
	OrderStrict Order = "strict"
)

// UnmarshalText accepts "lane" and "strict".
func (o *Order) UnmarshalText(text []byte) error {
	switch order := Order(text); order {
	case OrderLane, OrderStrict:
		*o = order
		return nil
	}
	return &textError{string(text), `is not an order; write "lane" or "strict"`}
}

// Start is where a source begins when its broker has no position of the group yet. The zero value is the earliest message.
type Start struct {
	// Latest begins behind the newest message.
	Latest bool
	// Time begins with the first message at or after it, unless it is zero.
	Time time.Time
}

// UnmarshalText accepts "earliest", "latest" and a time as RFC 3339 writes it.
func (s *Start) UnmarshalText(text []byte) error {
	switch string(text) {
	case "earliest":
		*s = Start{}
		return nil
	case "latest":
		*s = Start{Latest: true}
		return nil
	}
	// Lower-case letters are allowed by the RFC and not by the layout.
	at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(string(text)))
	if err != nil || at.IsZero() {
		return &textError{string(text), `is not a start; write "earliest", "latest" or a time such as "2026-01-31T08:00:00Z"`}
	}
	*s = Start{Time: at}
	return nil
}

// String returns what UnmarshalText accepts.
func (s Start) String() string {
	switch {
	case s.Latest:
		return "latest"
	case s.Time.IsZero():
		return "earliest"
	}
	return s.Time.Format(time.RFC3339Nano)
}

// MarshalText returns what UnmarshalText accepts.
func (s Start) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
