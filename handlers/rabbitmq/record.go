package rabbitmq

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// fromDelivery gives the record of a message that was read from queue. Its value is the delivered body, not a copy. It has no
// position: its id is only what the message carries.
func fromDelivery(dataCenter, queue string, d *amqp.Delivery) *record.Record {
	uuid, _ := d.Headers[record.IDKey].(string)
	id := uuid
	if id == "" {
		id = d.MessageId
	}
	in := newReading(d)
	in.table(d.Headers, uuid)
	n := len(in.entries)
	in.properties(d, queue)
	in.identity(d, uuid)
	in.lift(in.entries[:n], id, uuid)
	r := record.UnfoldTable(in.entries, d.Body, stored)
	r.ID, r.Source = id, record.Source{DataCenter: dataCenter, Topic: queue}
	if seconds := d.Timestamp.Unix(); !d.Timestamp.IsZero() && r.Time.Unix() != seconds {
		r.Time = time.Time{}
		if common(seconds) {
			r.Time = d.Timestamp
		}
	}
	return r
}

// reading collects the headers of a record.
type reading struct {
	entries []record.Header
	text    []byte           // of all values, in one piece
	had     [properties]bool // what the message has
}

func newReading(d *amqp.Delivery) *reading {
	const aside, typical = 8, 16 // Properties of a message, bytes of one.
	size := aside * typical
	for _, field := range d.Headers {
		if s, ok := field.(string); ok {
			size += len(s)
		} else {
			size += typical
		}
	}
	return &reading{entries: make([]record.Header, 0, len(d.Headers)+aside), text: make([]byte, 0, size)}
}

func (r *reading) property(p property, value string) {
	r.had[p] = true
	r.text = append(r.text, value...)
	r.add(p.name(), record.Bytes, len(value))
}

func (r *reading) field(name string, field any) {
	switch v := field.(type) {
	case nil:
		r.entries = append(r.entries, record.Header{Key: name, Type: record.Void})
	case []byte:
		r.entries = append(r.entries, record.Header{Key: name, Value: v, Type: record.ByteArray})
	default:
		before := len(r.text)
		r.text = appendText(r.text, field)
		r.add(name, typeOf(field), len(r.text)-before)
	}
}

// add makes a header of the last n bytes of the text.
func (r *reading) add(name string, t record.Type, n int) {
	end := len(r.text)
	r.entries = append(r.entries, record.Header{Key: name, Value: r.text[end-n : end : end], Type: t})
}

// properties reads those that are what they are.
func (r *reading) properties(d *amqp.Delivery, queue string) {
	for _, c := range [...]struct {
		p     property
		value string
	}{
		{contentType, d.ContentType},
		{contentEncoding, d.ContentEncoding},
		{correlationID, d.CorrelationId},
		{replyTo, d.ReplyTo},
		{expiration, d.Expiration},
		{messageType, d.Type},
		{appID, d.AppId},
		{userID, d.UserId},
		{exchange, d.Exchange},
	} {
		if c.value != "" {
			r.property(c.p, c.value)
		}
	}
	if d.Exchange != "" || d.RoutingKey != queue { // Otherwise it was sent to the queue, which is no news.
		r.property(routingKey, d.RoutingKey)
	}
	if d.Priority != 0 {
		r.property(priority, strconv.Itoa(int(d.Priority)))
	}
	if d.DeliveryMode != amqp.Persistent {
		r.property(deliveryMode, strconv.Itoa(max(1, int(d.DeliveryMode))))
	}
	if field, ok := d.Headers[ccHeader]; ok {
		r.had[cc] = true
		r.field(record.CCEntry, field)
	}
	if field, ok := d.Headers[bccHeader]; ok {
		r.had[bcc] = true
		r.field(record.BCCEntry, field)
	}
}

// identity reads message-id and timestamp, as far as the record's ID and Time do not tell them.
func (r *reading) identity(d *amqp.Delivery, uuid string) {
	if d.MessageId != uuid && (d.MessageId != "" || len(uuid) <= maxShort) {
		r.property(messageID, d.MessageId)
	}
	if d.Timestamp.IsZero() {
		if !r.declaresTime() {
			r.property(timestamp, "")
		}
	} else if seconds := d.Timestamp.Unix(); !common(seconds) {
		r.property(timestamp, strconv.FormatInt(seconds, 10))
	}
}

// declaresTime reports whether the table has the time of the message.
func (r *reading) declaresTime() bool {
	i := slices.IndexFunc(r.entries, func(h record.Header) bool { return h.Key == record.TimeEntry })
	if i < 0 {
		return false
	}
	t, ok := record.ParseTime(string(r.entries[i].Value))
	return ok && !t.IsZero()
}

// table reads the headers that are only headers, uuid apart.
func (r *reading) table(headers amqp.Table, uuid string) {
	for name, field := range headers {
		copies, escaped := copying(name)
		switch {
		case name == record.IDKey && uuid != "", copies && !escaped:
		case copies:
			r.field(name[len(record.EscapedPrefix):], field)
		default:
			r.field(name, field)
		}
	}
}

// lift makes room on the ladders for what the message has.
func (r *reading) lift(entries []record.Header, id, uuid string) {
	lowest, any := climb(entries)
	if !any {
		return
	}
	for i := range entries {
		p, _, ok := rung(entries[i].Key)
		if ok && (r.had[p] || lowest.moves(p, id) && (p != messageUUID || uuid == "")) {
			entries[i].Key = record.EscapedPrefix + entries[i].Key
		}
	}
}

// copying reports whether name is that of a header that makes RabbitMQ copy the message, and whether it is escaped.
func copying(name string) (is, escaped bool) {
	if !strings.HasSuffix(name, ccHeader) {
		return false, false
	}
	bare, n := unescaped(name)
	return bare == ccHeader || bare == bccHeader, n > 0
}

// toPublishing gives what is to be published for r, always persistent; exchange and routing key are the caller's. It fails
// with a permanent error when r has a header whose name is too long for AMQP, or more headers than clients read.
func toPublishing(r *record.Record) (amqp.Publishing, error) {
	out := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: r.Value}
	folded := *r
	if seconds := r.Time.Unix(); !r.Time.IsZero() && common(seconds) {
		out.Timestamp = time.Unix(seconds, 0)
		if r.Time.Nanosecond() == 0 {
			folded.Time = time.Time{}
		}
	}
	entries := record.FoldTable(&folded, stored)
	lowest, _ := climb(entries)
	message, uuid := lowest.identity(r.ID)
	out.MessageId = message
	declared, isDeclared := lowest.property(timestamp, r.ID)
	if isDeclared {
		out.Timestamp = declaredTime(declared)
	}
	out.Headers = make(amqp.Table, len(entries)+1)
	for i := range entries {
		e := &entries[i]
		if e.Key == record.TimeEntry && isDeclared {
			continue
		}
		name, p, isProperty := lowest.place(e.Key, r.ID, uuid)
		if isProperty {
			p.set(&out, string(e.Value))
			continue
		}
		if len(name) > maxShort {
			return amqp.Publishing{}, handlers.Permanent(fmt.Errorf("header %.40q…: its name has %d bytes, AMQP allows %d", name, len(name), maxShort))
		}
		out.Headers[name], _ = parseField(e.Type, e.Value)
	}
	if uuid != "" {
		out.Headers[record.IDKey] = uuid
	}
	if len(out.Headers) > maxElements {
		return amqp.Publishing{}, handlers.Permanent(fmt.Errorf("a message of %d headers: AMQP clients read %d", len(out.Headers), maxElements))
	}
	return out, nil
}

func declaredTime(seconds string) time.Time {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil { // It is empty.
		return time.Time{}
	}
	return time.Unix(n, 0)
}
