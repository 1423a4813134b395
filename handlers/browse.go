package handlers

import (
	"context"
	"fmt"

	"github.com/mqferry/mqferry/handlers/record"
)

// Browser is an ability that a Connection may have: to look through a topic without consuming it, and to take single messages out. It is for poison queues.
type Browser[D any] interface {
	// Browse begins to look through d.Topic as it is now. A topic that is not there is an empty one.
	Browse(ctx context.Context, d Destination, options D) (Browsing, error)
}

// Browsing is a look through a topic, for one goroutine at a time.
type Browsing interface {
	// Next gives up to n messages more, oldest first; none at the end. Messages that came after Browse may be left out.
	Next(ctx context.Context, n int) ([]*record.Record, error)
	// Remove takes messages that Next gave out of the topic. When it returns nil they are gone for good; after an error some may be.
	Remove(ctx context.Context, records []*record.Record) error
	// Close leaves everything that was not removed where it was.
	Close() error
}

// Browse begins to look through d.Topic, if the broker can.
func (c conn[S, D]) Browse(ctx context.Context, d Destination, o Options) (Browsing, error) {
	b, ok := c.typed.(Browser[D])
	if !ok {
		return nil, fmt.Errorf("the broker of data center %q cannot be looked through: have messages parked elsewhere, with poison: {datacenter: …}", d.DataCenter)
	}
	complete(&d.Logger, &d.Meter, &d.Health)
	return b.Browse(ctx, d, o.(D))
}
