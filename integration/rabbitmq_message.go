package integration

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	watermillmessage "github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/record"
)

// field is one header of a RabbitMQ message, and how it looks elsewhere.
type field struct {
	name  string
	value any
	kind  record.Type
	text  string
}

// allFields has each kind of field that RabbitMQ knows, and what RabbitMQ itself adds to a message that was dead-lettered.
func allFields() []field {
	dead := time.Unix(1_700_000_000, 0)
	return []field{
		{"array", []any{int32(-5), "a", nil, []byte{0xff}}, record.Array, `[{"$int32":-5},"a",null,{"$bytes":"/w=="}]`},
		{"binary", []byte{0, 0xff, '\n'}, record.ByteArray, "\x00\xff\n"},
		{"bool", true, record.Bool, "true"},
		{"decimal", amqp.Decimal{Scale: 2, Value: -1234}, record.Decimal, "-12.34"},
		{"float32", float32(1.5), record.Float32, "1.5"},
		{"float64", 0.1, record.Float64, "0.1"},
		{"int16", int16(-32768), record.Int16, "-32768"},
		{"int32", int32(-2147483648), record.Int32, "-2147483648"},
		{"int64", int64(-9223372036854775808), record.Int64, "-9223372036854775808"},
		{"int8", int8(-128), record.Int8, "-128"},
		{"table", amqp.Table{"empty": amqp.Table{}, "$odd": uint8(1)}, record.Table, `{"$table":{"$odd":{"$uint8":1},"empty":{}}}`},
		{"text", "\xff no UTF-8", record.Bytes, "\xff no UTF-8"},
		{"time", dead, record.Timestamp, "1700000000"},
		{"uint16", uint16(65535), record.Uint16, "65535"},
		{"uint32", uint32(4294967295), record.Uint32, "4294967295"},
		{"uint8", uint8(255), record.Uint8, "255"},
		{"void", nil, record.Void, ""},
		{
			"x-death",
			[]any{amqp.Table{
				"count": int64(2), "reason": "expired", "queue": "before", "time": dead, "exchange": "", "routing-keys": []any{"before"},
			}},
			record.Array,
			`[{"count":2,"exchange":"","queue":"before","reason":"expired","routing-keys":["before"],"time":{"$time":1700000000}}]`,
		},
		{"x-first-death-queue", "before", record.Bytes, "before"},
	}
}

// make gives a message one of four forms: all that there is, what watermill-amqp writes, what RabbitMQ does not let others repeat, and one
// of an application that knows of keys. On the way to a Kafka with several partitions the key decides the order that is kept, so there the keys
// are the lanes of the ledger.
func (q *RabbitMQ) make(i int, route string, to End) *message {
	m := &message{lane: "queue", seq: uint64(i)}
	form, group := i%4, i/4%2
	if k, ok := to.(*Kafka); ok && k.partitions > 1 {
		m.lane, m.seq = "no key", uint64(i/4*3+form)
		if form == 3 {
			m.lane, m.seq = "key "+strconv.Itoa(group), uint64(i/8)
		}
	}
	id := fmt.Sprintf("%s-%d", route, i)
	m.record = &record.Record{Value: m.payload(q.size)}
	m.record.Source = record.Source{DataCenter: q.site, Topic: q.queue}
	if form%2 == 0 && m.record.Value == nil {
		m.record.Value = []byte{}
	}
	m.publishing = amqp.Publishing{Headers: amqp.Table{}, DeliveryMode: amqp.Persistent, Body: m.record.Value}
	switch form {
	case 0:
		m.beRich(id, q.exchange)
	case 1:
		m.beStock(id)
	case 2:
		m.beOdd(q.transient)
	case 3:
		m.beKeyed(id, []byte{'k', 0xff, byte(group)})
	}
	return m
}

// have adds headers to the message: what it is sent with and how it is to arrive.
func (m *message) have(fields ...field) {
	for _, f := range fields {
		m.publishing.Headers[f.name] = f.value
		m.declared(f.name, f.kind, f.text)
	}
}

func (m *message) declared(name string, kind record.Type, text string) {
	h := record.Header{Key: name, Value: []byte(text), Type: kind}
	if kind == record.Void {
		h.Value = nil
	}
	m.record.Headers = append(m.record.Headers, h)
}

// labels are the headers of a RabbitMQ message that say which one it is.
func (m *message) labels() []field {
	sequence := strconv.FormatUint(m.seq, 10)
	return []field{{laneHeader, m.lane, record.Bytes, m.lane}, {seqHeader, sequence, record.Bytes, sequence}}
}

// beRich gives the message every kind of header and every property but those of beOdd; its id is the property alone.
func (m *message) beRich(id, exchange string) {
	m.have(allFields()...)
	m.have(m.labels()...)
	p := &m.publishing
	p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo = "application/json", "identity", "request 7", "answers"
	p.Expiration, p.Type, p.AppId, p.Priority = "86400000", "order.made", "shop", 7
	p.MessageId, p.Timestamp = id, anHourAgo().Truncate(time.Second)
	m.exchange, m.routingKey = exchange, "orders.made"
	m.record.ID, m.record.Time = id, p.Timestamp
	for name, text := range map[string]string{
		record.ContentTypeEntry: p.ContentType, record.ContentEncodingEntry: p.ContentEncoding, record.CorrelationIDEntry: p.CorrelationId,
		record.ReplyToEntry: p.ReplyTo, record.ExpirationEntry: p.Expiration, record.TypeEntry: p.Type, record.AppIDEntry: p.AppId,
		record.PriorityEntry: "7", record.MessageIDEntry: id, record.ExchangeEntry: exchange, record.RoutingKeyEntry: m.routingKey,
	} {
		m.declared(name, record.Bytes, text)
	}
}

// beStock lets watermill-amqp make the message: its id is in a header, and there is no property.
func (m *message) beStock(id string) {
	out := watermillmessage.NewMessage(id, m.record.Value)
	for _, label := range append(m.labels(), field{name: "a", text: "\x00\xff"}) {
		out.Metadata[label.name] = label.text
		m.declared(label.name, record.Bytes, label.text)
	}
	if m.record.Value == nil {
		out.Metadata[record.NullEntry] = "1"
	}
	var err error
	m.publishing, err = stock{}.Marshal(out)
	if err != nil {
		panic(err) // It cannot fail.
	}
	m.record.ID = id
	m.declared(record.MessageIDEntry, record.Bytes, "")
	m.declared(record.TimestampEntry, record.Bytes, "")
}

// beOdd gives the message what RabbitMQ does not take from another, or must not do again. It has no id at all.
func (m *message) beOdd(transient bool) {
	m.have(m.labels()...)
	m.publishing.UserId = "guest"
	m.publishing.Headers["CC"] = []any{"nowhere"}
	m.declared(record.CCEntry, record.Array, `["nowhere"]`)
	m.declared(record.UserIDEntry, record.Bytes, "guest")
	m.declared(record.TimestampEntry, record.Bytes, "")
	if transient {
		m.publishing.DeliveryMode = amqp.Transient
		m.declared(record.DeliveryModeEntry, record.Bytes, "1")
	}
}

// beKeyed gives the message a key and, where the payload is none, says so; its id is in both places.
func (m *message) beKeyed(id string, key []byte) {
	m.have(m.labels()...)
	p := &m.publishing
	p.Headers[record.KeyEntry], p.Headers[record.IDKey] = string(key), id
	p.MessageId, p.Timestamp = id, anHourAgo().Truncate(time.Second)
	if m.record.Value == nil {
		p.Headers[record.NullEntry] = "1"
	}
	m.record.ID, m.record.Key, m.record.Time = id, key, p.Timestamp
}

// expected is the message with all its properties and types in declared headers, sorted. At a RabbitMQ it is what was sent, but for what
// RabbitMQ does not let others repeat. At a Kafka, which has no types, one more header tells them.
func (q *RabbitMQ) expected(m *message, to End) *record.Record {
	if _, same := to.(*RabbitMQ); same {
		return native(repeated(m.publishing))
	}
	r := *m.record
	r.Headers = slices.Clone(r.Headers)
	slices.SortFunc(r.Headers, func(a, b record.Header) int { return strings.Compare(a.Key, b.Key) })
	if _, kafka := to.(*Kafka); !kafka {
		return &r
	}
	var types []string
	for i, h := range r.Headers {
		if h.Type != record.Bytes {
			types = append(types, fmt.Sprintf("%s:%d", h.Key, h.Type))
			r.Headers[i].Type = record.Bytes
		}
	}
	if types != nil {
		r.Headers = append(r.Headers, record.Header{Key: record.TypesHeader, Value: []byte(strings.Join(types, "&"))})
	}
	return &r
}

// repeated is what a ferry publishes for a message.
func repeated(p amqp.Publishing) amqp.Publishing {
	p.Headers = maps.Clone(p.Headers)
	if copies, is := p.Headers["CC"]; is {
		delete(p.Headers, "CC")
		p.Headers[record.CCEntry] = copies
	}
	if p.UserId != "" {
		p.Headers[record.UserIDEntry] = p.UserId
		p.UserId = ""
	}
	if p.DeliveryMode == amqp.Transient {
		p.Headers[record.DeliveryModeEntry] = "1"
		p.DeliveryMode = amqp.Persistent
	}
	return p
}

// asPublished turns a message that was delivered into the one that was published.
func asPublished(d *amqp.Delivery) amqp.Publishing {
	return amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
	}
}

// native is a message of RabbitMQ in a form that shows each header with its Go type, if it is not text, and each property.
func native(p amqp.Publishing) *record.Record {
	r := &record.Record{Value: append([]byte{}, p.Body...)}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		text, is := p.Headers[name].(string)
		if !is {
			text = typed(p.Headers[name])
		}
		r.Headers = append(r.Headers, record.Header{Key: name, Value: []byte(text)})
	}
	properties := fmt.Sprintf("%q %q %d %d %q %q %q %q %d %q %q %q", p.ContentType, p.ContentEncoding, p.DeliveryMode, p.Priority,
		p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Timestamp.Unix(), p.Type, p.UserId, p.AppId)
	r.Headers = append(r.Headers, record.Header{Key: "properties", Value: []byte(properties)})
	return r
}

// typed is the value of a header with its type.
func typed(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case time.Time:
		return fmt.Sprintf("time %d", v.Unix())
	case amqp.Table:
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&text, "%q: %s, ", name, typed(v[name]))
		}
		return "table {" + text.String() + "}"
	case []any:
		var text strings.Builder
		for _, element := range v {
			text.WriteString(typed(element) + ", ")
		}
		return "array [" + text.String() + "]"
	default:
		return fmt.Sprintf("%T %v", v, v)
	}
}
