package rabbitmq

import (
	"bytes"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// flight is what a channel holds, in the order in which it was handed over: first what was written, each with the delivery tag that follows its predecessor's,
// then what is queued.
type flight struct {
	all     []*shipment // Nil where the outcome and the confirm are there.
	head    int         // All before are nil, and forgotten.
	written int         // How many from head on were written.
	first   uint64      // The tag of the one at head.
	open    int         // How many were written and are not confirmed.
	unseen  uint64      // Nothing from this tag on was returned.
}

// begin starts the tags of a new AMQP channel. Nothing is written then.
func (f *flight) begin() { f.first, f.unseen = 1, 1 }

func (f *flight) push(s *shipment) {
	if f.head > 0 && len(f.all) == cap(f.all) {
		n := copy(f.all, f.all[f.head:])
		clear(f.all[n:])
		f.all, f.head = f.all[:n], 0
	}
	f.all = append(f.all, s)
}

func (f *flight) queued() int { return len(f.all) - f.head - f.written }

// next gives the first one that is not written.
func (f *flight) next() *shipment {
	if f.queued() == 0 {
		return nil
	}
	return f.all[f.head+f.written]
}

// write notes that the next one is written.
func (f *flight) write() *shipment {
	s := f.next()
	f.written++
	f.open++
	return s
}

// confirm takes out the one with this tag; nil when there is none.
func (f *flight) confirm(tag uint64) *shipment {
	if tag < f.first || tag >= f.first+uint64(f.written) {
		return nil
	}
	at := f.head + int(tag-f.first)
	s := f.all[at]
	if s == nil {
		return nil
	}
	f.all[at] = nil
	f.open--
	for f.written > 0 && f.all[f.head] == nil {
		f.head++
		f.written--
		f.first++
	}
	if f.head == len(f.all) {
		f.all, f.head = f.all[:0], 0
	}
	return s
}

// match finds the one that r returns, and marks it. Returns come in the order in which their messages were written, so what was passed over is
// only looked at when there is nothing else.
func (f *flight) match(r *amqp.Return) *shipment {
	from := int(max(f.unseen, f.first) - f.first)
	for _, part := range [2][2]int{{from, f.written}, {0, min(from, f.written)}} {
		for i := part[0]; i < part[1]; i++ {
			s := f.all[f.head+i]
			if s != nil && !s.returned && same(s, r) {
				s.returned = true
				f.unseen = max(f.unseen, f.first+uint64(i)+1)
				return s
			}
		}
	}
	return nil
}

// take empties the flight and gives what has no outcome, lowest first.
func (f *flight) take() []*shipment {
	var lost []*shipment
	for _, s := range f.all[f.head:] {
		if s != nil && !s.returned {
			lost = append(lost, s)
		}
	}
	first := f.first + uint64(f.written)
	*f = flight{first: first, unseen: first}
	return lost
}

// same reports whether r returns s.
func same(s *shipment, r *amqp.Return) bool {
	p := &s.publishing
	return s.key == r.RoutingKey && s.exchange == r.Exchange && p.MessageId == r.MessageId && bytes.Equal(p.Body, r.Body) &&
		p.CorrelationId == r.CorrelationId && p.Type == r.Type && p.ReplyTo == r.ReplyTo && p.AppId == r.AppId && p.UserId == r.UserId &&
		p.ContentType == r.ContentType && p.ContentEncoding == r.ContentEncoding && p.Expiration == r.Expiration && p.Priority == r.Priority &&
		sameField(p.Timestamp, r.Timestamp) && sameField(p.Headers, r.Headers)
}

// sameField compares two values of headers as they are on the wire.
func sameField(a, b any) bool {
	switch a := a.(type) {
	case amqp.Table:
		b, ok := b.(amqp.Table)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, ok := b[name]; !ok || !sameField(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameField(a[i], b[i]) {
				return false
			}
		}
		return true
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case time.Time:
		b, ok := b.(time.Time)
		return ok && (a.IsZero() && b.IsZero() || a.Unix() == b.Unix())
	case float32:
		b, ok := b.(float32)
		return ok && (a == b || a != a && b != b)
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || a != a && b != b)
	}
	return a == b
}
