package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/record"
)

// payloadSize is the size of the payloads that are neither null nor empty.
const payloadSize = 1024

// The headers by which a message is known again at the other end.
const (
	laneHeader = "test-lane"
	seqHeader  = "test-seq"
)

// message is one message as it is sent.
type message struct {
	lane   string // Of the ledger: what has to stay in order.
	seq    uint64
	record *record.Record
	fields []any // Of a Redis entry, alternately name and value.
	// Of a RabbitMQ message, and where it is published if not to the queue.
	publishing           amqp.Publishing
	exchange, routingKey string
	// foreign says that the message is a Redis entry in nobody's format.
	foreign bool
}

// place is the headers of a message that say which one it is.
func (m *message) place() []record.Header {
	return []record.Header{
		{Key: laneHeader, Value: []byte(m.lane)},
		{Key: seqHeader, Value: strconv.AppendUint(nil, m.seq, 10)},
	}
}

// payload gives every 50th message none, as many an empty one, half of the others text, and the rest bytes that no compression makes smaller.
func (m *message) payload(size int) []byte {
	switch {
	case m.seq%50 == 49:
		return nil
	case m.seq%50 == 24:
		return []byte{}
	case m.seq%2 == 0:
		return bytes.Repeat([]byte("a payload that repeats itself; "), size/31+1)[:size]
	}
	noise := make([]byte, size)
	seed := [32]byte{}
	copy(seed[:], m.lane)
	binary.BigEndian.PutUint64(seed[24:], m.seq)
	_, _ = rand.NewChaCha8(seed).Read(noise)
	return noise
}

// id gives half of the messages an id of their own.
func (m *message) id(route string) string {
	if m.seq%2 == 1 {
		return ""
	}
	return fmt.Sprintf("%s-%s-%d", route, m.lane, m.seq)
}

// key gives a message a binary key, an empty one, or none.
func (m *message) key() []byte {
	switch m.seq % 5 {
	case 0:
		return nil
	case 1:
		return []byte{}
	default:
		return append([]byte(m.lane), 0, 0xff, byte(m.seq))
	}
}

// anHourAgo sets the time of a message apart from one that somebody on the way made up.
func anHourAgo() time.Time { return time.Now().Add(-time.Hour).Truncate(time.Millisecond) }

// placeOf finds which message r is.
func placeOf(r *record.Record) (lane string, seq uint64, err error) {
	found := 0
	for _, h := range r.Headers {
		switch h.Key {
		case laneHeader:
			lane = string(h.Value)
			found++
		case seqHeader:
			seq, err = strconv.ParseUint(string(h.Value), 10, 64)
			found++
		}
	}
	if err != nil || found != 2 {
		return "", 0, fmt.Errorf("a message without its place: %s", describe(r))
	}
	return lane, seq, nil
}

// fingerprint is a hash over all that is carried of a message.
func fingerprint(r *record.Record) uint64 {
	h := fnv.New64a()
	add := func(content []byte) {
		length := int64(len(content))
		if content == nil {
			length = -1
		}
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(length)))
		h.Write(content)
	}
	add([]byte(r.ID))
	add(r.Key)
	add(r.Value)
	for _, header := range r.Headers {
		add([]byte(header.Key))
		add(header.Value)
		add([]byte{byte(header.Type)})
	}
	if !r.Time.IsZero() {
		add(strconv.AppendInt(nil, r.Time.UnixMilli(), 10))
	}
	return h.Sum64()
}

// describe shows a message to people.
func describe(r *record.Record) string {
	var text strings.Builder
	fmt.Fprintf(&text, "id %q, key %s, value %s, time %s, headers", r.ID, show(r.Key), show(r.Value), r.Time.UTC().Format(time.RFC3339Nano))
	for _, h := range r.Headers {
		fmt.Fprintf(&text, " %q=%s", h.Key, show(h.Value))
		if h.Type != record.Bytes {
			fmt.Fprintf(&text, " (%s)", h.Type)
		}
	}
	return text.String()
}

func show(content []byte) string {
	switch {
	case content == nil:
		return "null"
	case len(content) > 40:
		return fmt.Sprintf("%q… (%d bytes)", content[:40], len(content))
	default:
		return strconv.Quote(string(content))
	}
}
