package rabbitmq

import (
	"bytes"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// confirmation is what the client keeps of a message that was written: an [amqp.DeferredConfirmation].
type confirmation interface {
	Done() <-chan struct{}
	Acked() bool
}

// flight is what a channel holds, in the order in which it was handed over: first what was written, then what is queued.
type flight struct {
	all     []*shipment // Nil where the outcome and the confirm are there.
	head    int         // All before are nil, and forgotten.
	written int         // How many from head on were written.
	open    int         // How many were written and are not confirmed.
	passed  int         // No return came of those behind so many of the written ones.
}

func (f *flight) push(s *shipment) {
	if len(f.all) == cap(f.all) && f.head >= len(f.all)/2 && f.head > 0 {
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

// oldest gives the first one that is not confirmed; nil when there is none.
func (f *flight) oldest() *shipment {
	if f.written == 0 {
		return nil
	}
	return f.all[f.head]
}

// look marks those whose confirms are there, up to the first that has none or of all, and returns how far it went. A channel that closes seems to nack everything
// that is open: that counts for nothing.
func (f *flight) look(ch interface{ IsClosed() bool }, all bool) int {
	for i := range f.written {
		s := f.all[f.head+i]
		if s == nil {
			continue
		}
		s.settled = s.settled || s.confirmed() && (s.confirm.Acked() || !ch.IsClosed())
		if !s.settled && !all {
			return i
		}
	}
	return f.written
}

// confirmed reports whether there was an ack or a nack.
func (s *shipment) confirmed() bool {
	if s.confirm == nil {
		return false
	}
	select {
	case <-s.confirm.Done():
		return true
	default:
		return false
	}
}

// land takes the marked ones out of the first n, and appends them to out.
func (f *flight) land(n int, out []*shipment) []*shipment {
	for i := range min(n, f.written) {
		if s := f.all[f.head+i]; s != nil && s.settled {
			f.all[f.head+i] = nil
			f.open--
			out = append(out, s)
		}
	}
	f.trim()
	return out
}

// trim forgets what is nil at the beginning.
func (f *flight) trim() {
	for f.written > 0 && f.all[f.head] == nil {
		f.head++
		f.written--
		f.passed = max(f.passed-1, 0)
	}
	if f.head == len(f.all) {
		f.all, f.head = f.all[:0], 0
	}
}

// match finds the one that r returns, and marks it. Returns come in the order in which their messages were written, so what was passed over is
// only looked at when there is nothing else.
func (f *flight) match(r *amqp.Return) *shipment {
	from := f.passed
	for _, part := range [2][2]int{{from, f.written}, {0, from}} {
		for i := part[0]; i < part[1]; i++ {
			s := f.all[f.head+i]
			if s != nil && !s.returned && same(s, r) {
				s.returned = true
				f.passed = max(from, i+1)
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
	*f = flight{}
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
