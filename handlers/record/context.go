package record

import (
	"context"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
)

// smallMap is how many entries a Go map holds before it has to grow.
const smallMap = 8

type contextKey struct{}

type carrier struct {
	context.Context
	record *Record
}

// Value answers Key with the record and leaves every other key to the parent.
func (c *carrier) Value(key any) any {
	if _, ok := key.(contextKey); ok {
		return c.record
	}
	return c.Context.Value(key)
}

// Key gives the context key under which From looks for a *Record, for a context type that carries the record itself
// instead of being wrapped by With.
func Key() any { return contextKey{} }

// With gives a context that carries r.
func With(ctx context.Context, r *Record) context.Context {
	return &carrier{Context: ctx, record: r}
}

// From gives the record that ctx carries, or nil.
func From(ctx context.Context) *Record {
	r, _ := ctx.Value(contextKey{}).(*Record)
	return r
}

// Message makes the Watermill message for r: its UUID is the ID, its payload the Value (the same bytes, which
// middleware replaces rather than changes), its metadata the view that Metadata describes. The message's context is
// ctx itself if it answers Key with r, otherwise ctx with r in it.
func (r *Record) Message(ctx context.Context) *message.Message {
	// Clipped, because the bytes behind a fetched value may be those of the next message.
	msg := message.NewMessage(r.ID, slices.Clip(r.Value))
	if len(r.Headers) > smallMap {
		msg.Metadata = make(message.Metadata, len(r.Headers))
	}
	view(r.Headers, msg.Metadata)
	if From(ctx) != r {
		ctx = With(ctx, r)
	}
	msg.SetContext(ctx)
	return msg
}
