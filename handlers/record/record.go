package record

import (
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// IDKey is the Kafka header and the Redis field in which Watermill's own packages keep the message id.
const IDKey = "_watermill_message_uuid"

// Record is one message as its source broker had it. It is immutable once it has been handed out, and may then be
// read from any goroutine: middleware changes the Watermill message, never the record or the bytes it points to.
type Record struct {
	// ID is the message id: the one that the message carried, or one from DeriveID. It is empty if there is neither.
	ID string
	// Key is the message's key; nil means that it has none, which is not the same as an empty one.
	Key []byte
	// Value is the payload; nil is null (a tombstone in Kafka), which is not the same as an empty one.
	Value []byte
	// Headers are in the order of the source, repeats kept, without the header that holds the message id.
	Headers []Header
	// Time is when the message was made, as its broker tells it; zero means unknown.
	Time time.Time
	// Source is where the message was read; zero for a message that was made by middleware.
	Source Source
}

// Header is one header of a record.
type Header struct {
	// Key is the header's name, any bytes.
	Key string
	// Value holds the header's bytes; nil is null, which is not the same as empty.
	Value []byte
	// Type says what the value was at the source; zero is Bytes.
	Type Type
}

// Type says what a header's value was at its source. The numbers are written into messages and never change.
type Type uint8

// Bytes is a value without any type but its bytes: all that Kafka and Redis have.
const Bytes Type = 0

// Source is where a record was read. An empty Position means that the place has no stable coordinates.
type Source struct {
	// DataCenter and Topic are the names of the config file.
	DataCenter, Topic string
	// Lane is the partition of a Kafka topic ("3") and empty for a Redis stream.
	Lane string
	// Position is the offset in a Kafka partition or the id of a Redis entry.
	Position string
}

// DeriveID makes the id of a message that carries none from the place where it was read: "shanghai/orders/3@1234",
// or "virginia/orders@1700000000000-0" without a lane. It is the same for every redelivery, and empty if s has no
// position. A topic that is deleted and made again starts the same ids anew.
func DeriveID(s Source) string {
	if s.Position == "" {
		return ""
	}
	if s.Lane == "" {
		return s.DataCenter + "/" + s.Topic + "@" + s.Position
	}
	return s.DataCenter + "/" + s.Topic + "/" + s.Lane + "@" + s.Position
}

// Size gives the bytes of key, value and headers (names and values), which is what a window counts.
func (r *Record) Size() int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// Metadata gives the view over the headers that middleware works with: each header's bytes as a string, the last one
// of a repeated name, null as empty. The map is new, never nil, and the caller's own.
func Metadata(r *Record) message.Metadata {
	m := make(message.Metadata, len(r.Headers))
	view(r.Headers, m)
	return m
}

// view cuts all values out of one string: many headers then cost one allocation.
func view(headers []Header, m message.Metadata) {
	if len(headers) == 0 {
		return
	}
	size := 0
	for i := range headers {
		size += len(headers[i].Value)
	}
	var b strings.Builder
	b.Grow(size)
	for i := range headers {
		b.Write(headers[i].Value)
	}
	rest := b.String()
	for i := range headers {
		n := len(headers[i].Value)
		m[headers[i].Key] = rest[:n]
		rest = rest[n:]
	}
}
