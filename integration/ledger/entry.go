package ledger

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// The headers of an entry. Others that a relay adds on the way do not belong to it.
const (
	// Prefix begins the name of every header of an entry.
	Prefix = "ledger-"
	// LaneHeader holds the name of the lane.
	LaneHeader = Prefix + "lane"
	// SeqHeader holds the number in the lane, in decimal.
	SeqHeader = Prefix + "seq"

	repeatHeader = Prefix + "repeat"
	emptyHeader  = Prefix + "empty"
)

// Every nullEvery-th message of a lane has a null value, and as many an empty one.
const (
	nullEvery = 64
	nullAt    = 7
	emptyAt   = 23
)

// timeShift sets an entry's time apart from a time that somebody on the way made up.
const timeShift = time.Hour

// Header is one header; a name may come several times.
type Header struct {
	Name  string
	Value []byte
}

// Entry is one message as it is to arrive: its place and its content.
type Entry struct {
	Lane string
	Seq  uint64
	// Key may be nil, which is not the same as empty.
	Key []byte
	// Value may be nil, which is not the same as empty.
	Value []byte
	// Headers are ordered; nil and empty values are the same.
	Headers []Header
	// Time counts to the millisecond.
	Time time.Time
}

// Next makes the next message of a lane, with a value of about size bytes, and does not enter it: that is Sent's. Numbers
// begin at 0. All keys of a lane are equal, so that what goes by the key keeps a lane together, and not valid UTF-8. Headers
// repeat, one is binary and one is empty; now and then a value is null or empty; the time is an hour ago.
func (l *Ledger) Next(lane string, size int) Entry {
	l.mu.Lock()
	seq := l.next[lane]
	l.next[lane]++
	l.mu.Unlock()
	return Entry{
		Lane:  lane,
		Seq:   seq,
		Key:   append([]byte(lane), 0xff),
		Value: value(lane, seq, size),
		Headers: []Header{
			{LaneHeader, []byte(lane)},
			{SeqHeader, strconv.AppendUint(nil, seq, 10)},
			{repeatHeader, []byte("first")},
			{repeatHeader, []byte{0, 0xff, 0xfe, '\n'}},
			{emptyHeader, []byte{}},
		},
		Time: time.Now().Add(-timeShift).Truncate(time.Millisecond),
	}
}

// value is text that differs from message to message, for as long as it is asked to be.
func value(lane string, seq uint64, size int) []byte {
	switch seq % nullEvery {
	case nullAt:
		return nil
	case emptyAt:
		return []byte{}
	}
	line := fmt.Sprintf("%s %d of what was sent; ", lane, seq)
	return []byte(strings.Repeat(line, size/len(line)+1)[:size])
}

// Sent enters an entry as produced.
func (l *Ledger) Sent(e Entry) { l.Produced(e.Lane, e.Seq, e.Fingerprint()) }

// Received enters an entry as arrived; it is to be called in the order of arrival of each lane.
func (l *Ledger) Received(e Entry) { l.Arrived(e.Lane, e.Seq, e.Fingerprint()) }

// Parse finds the entry in a message that arrived; headers that are not an entry's are left out. It fails when the headers
// do not say which message it is; Stranger takes such a message.
func Parse(key, value []byte, headers []Header, at time.Time) (Entry, error) {
	e := Entry{Key: key, Value: value, Time: at}
	var lane, seq *Header
	for _, h := range headers {
		if !strings.HasPrefix(h.Name, Prefix) {
			continue
		}
		switch h.Name {
		case LaneHeader:
			lane = &h
		case SeqHeader:
			seq = &h
		}
		e.Headers = append(e.Headers, h)
	}
	if lane == nil || seq == nil {
		return Entry{}, fmt.Errorf("message without the headers %s and %s", LaneHeader, SeqHeader)
	}
	number, err := strconv.ParseUint(string(seq.Value), 10, 64)
	if err != nil {
		return Entry{}, fmt.Errorf("header %s: %w", SeqHeader, err)
	}
	e.Lane, e.Seq = string(lane.Value), number
	return e, nil
}

// Fingerprint is a hash over everything in the entry: lane, number, key, value, whether these are null, headers in their order, and
// the time in milliseconds. It is the same in every process.
func (e Entry) Fingerprint() uint64 {
	h := fnv.New64a()
	number := make([]byte, 0, 16)
	number = binary.BigEndian.AppendUint64(number, e.Seq)
	h.Write(binary.BigEndian.AppendUint64(number, uint64(e.Time.UnixMilli())))
	add(h, []byte(e.Lane))
	addNullable(h, e.Key)
	addNullable(h, e.Value)
	for _, header := range e.Headers {
		add(h, []byte(header.Name))
		add(h, header.Value)
	}
	return h.Sum64()
}

func addNullable(h hash.Hash64, content []byte) {
	if content == nil {
		h.Write([]byte{0})
		return
	}
	h.Write([]byte{1})
	add(h, content)
}

// add hashes the length first, so that no two contents run together.
func add(h hash.Hash64, content []byte) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(content))))
	h.Write(content)
}
