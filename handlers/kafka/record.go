package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers/record"
)

// fromKafka gives the record of what was fetched. Its bytes are the fetched ones, not copies.
func fromKafka(dataCenter string, k *kgo.Record) *record.Record {
	r := &record.Record{
		Key: k.Key, Value: k.Value,
		Source: record.Source{
			DataCenter: dataCenter, Topic: k.Topic,
			Lane: strconv.Itoa(int(k.Partition)), Position: strconv.FormatInt(k.Offset, 10),
		},
	}
	if k.Timestamp.UnixMilli() >= 0 { // -1 is Kafka's word for none.
		r.Time = k.Timestamp
	}
	id := idHeader(k.Headers)
	if n := len(k.Headers); n > 0 {
		r.Headers = make([]record.Header, 0, n)
	}
	for i, h := range k.Headers {
		switch {
		case i == id:
			r.ID = string(h.Value)
			continue
		case h.Key == record.IDKey:
			h.Key = record.EscapedPrefix + h.Key // A message has one id; what looks like another is carried under this name.
		}
		r.Headers = append(r.Headers, record.Header{Key: h.Key, Value: h.Value})
	}
	r.Headers = record.TakeTypes(r.Headers)
	if r.ID == "" {
		r.ID = record.DeriveID(r.Source)
	}
	return r
}

// idHeader finds the header with the message id: the last one, as Watermill's own package does.
func idHeader(headers []kgo.RecordHeader) int {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == record.IDKey && len(headers[i].Value) > 0 {
			return i
		}
	}
	return -1
}

// toKafka fills in what is to be produced for r. A record without a time gets that of its sending. Types of headers are
// told by one more header, the last.
func toKafka(r *record.Record, k *kgo.Record) {
	k.Key, k.Value, k.Timestamp = r.Key, r.Value, r.Time
	types, typed := record.FoldTypes(r.Headers)
	n := len(r.Headers)
	if r.ID != "" {
		n++
	}
	if typed {
		n++
	}
	if n == 0 {
		return
	}
	k.Headers = make([]kgo.RecordHeader, 0, n)
	if r.ID != "" {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: record.IDKey, Value: []byte(r.ID)})
	}
	for i := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: r.Headers[i].Key, Value: r.Headers[i].Value})
	}
	if typed {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: record.TypesHeader, Value: types})
	}
}

// Of a record batch of version 2 with one record.
const (
	batchHeader    = 61
	recordOverhead = 3 // Attributes, and the deltas of time and offset, which are 0.
)

// encodedSize is the length of the batch that holds k alone, uncompressed: what a topic's max.message.bytes is compared with.
func encodedSize(k *kgo.Record) int {
	n := recordOverhead + fieldSize(k.Key == nil, len(k.Key)) + fieldSize(k.Value == nil, len(k.Value)) + varintSize(len(k.Headers))
	for i := range k.Headers {
		h := &k.Headers[i]
		n += fieldSize(false, len(h.Key)) + fieldSize(h.Value == nil, len(h.Value))
	}
	return batchHeader + varintSize(n) + n
}

func fieldSize(null bool, length int) int {
	if null {
		return 1
	}
	return varintSize(length) + length
}

// varintSize is the length of a number in Kafka's zigzag encoding.
func varintSize(n int) int {
	size := 1
	for u := uint64(n) << 1; u >= 0x80; u >>= 7 {
		size++
	}
	return size
}
