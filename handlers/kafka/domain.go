package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
)

// shipment is one message on its way into a partition.
type shipment struct {
	record kgo.Record
	turn   *handlers.Turn
	domain *domain
	size   int    // Of the batch that holds it alone, uncompressed.
	number uint64 // Its place in the domain.
}

// domain is a destination partition: what fails there fails together, since Kafka answers for a batch of it and the client then
// gives back everything it holds for the partition. Normally records go straight through. When some came back, the domain
// holds: nothing more enters the client until it is empty of the domain's records; then it is decided what becomes of them.
//
// All fields but recall are guarded by the publisher's lock.
type domain struct {
	publisher *publisher
	topic     *topic
	partition int32
	numbers   uint64

	context context.Context
	recall  atomic.Pointer[context.CancelFunc] // Makes the client give back the domain's records that it has not sent.
	flying  int                                // In the client.
	sent    int                                // Since it was last decided what becomes of them.

	holding  bool
	returned []returned  // Came back from the client.
	waiting  []*shipment // Sent while holding, in order.
	search   search
}

// returned is a shipment that came back unstored, as far as one can know, and why.
type returned struct {
	*shipment
	err error
}

// outbox gathers what turns are to be told when the publisher's lock is released: they take their lane's lock, inside which the publisher's is taken.
type outbox []returned

func (o *outbox) add(s *shipment, err error) { *o = append(*o, returned{s, err}) }

func (o *outbox) send() {
	for _, r := range *o {
		r.turn.Done(r.err)
	}
}

// put appends the shipment to its partition's order. It is called with the lane's lock held and never blocks.
func (s *shipment) put() {
	d := s.domain
	p := d.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	s.number = d.numbers
	d.numbers++
	switch {
	case p.closed || d.topic.gone:
		go s.turn.Done(d.giveUp()) // Elsewhere, since the lane is locked here.
	case d.holding || p.replacing:
		d.holding = true
		d.waiting = append(d.waiting, s)
	default:
		d.ship(s)
	}
}

// ship gives s to the client. All records that are in the client at the same time share a context, which is cancelled when one of them
// comes back: franz-go looks at the context of a batch that it never sent before it sends it, and gives it back then.
func (d *domain) ship(s *shipment) {
	if d.flying == 0 {
		if cancel := d.recall.Load(); cancel != nil {
			(*cancel)()
		}
		ctx, cancel := context.WithCancel(context.Background())
		d.context = ctx
		d.recall.Store(&cancel)
	}
	d.flying++
	d.sent++
	d.publisher.flying++
	s.record.Context = nil // Of an earlier attempt.
	d.publisher.client.Produce(d.context, &s.record, s.landed)
}

// landed is the client's word about a record. The client calls it for one record after the other.
func (s *shipment) landed(_ *kgo.Record, err error) {
	d := s.domain
	p := d.publisher
	if err != nil {
		s.turn.Suspend()
	}
	var out outbox
	p.mu.Lock()
	d.flying--
	p.landed(err)
	if err != nil {
		d.holding = true
		d.returned = append(d.returned, returned{s, err})
		(*d.recall.Load())()
	}
	if d.holding && d.flying == 0 {
		d.advance(&out)
	}
	p.mu.Unlock()
	if err == nil {
		s.turn.Done(nil)
	}
	out.send()
}

// advance decides what becomes of a domain that holds, once nothing of it is in the client. The publisher's lock is held.
func (d *domain) advance(out *outbox) {
	p := d.publisher
	switch {
	case d.flying > 0 || !d.holding:
		return
	case p.closed || d.topic.gone:
		d.fail(d.giveUp(), out)
		return
	}
	if d.sent > 0 {
		d.sent = 0
		d.judge(out)
	}
	if p.replacing || d.search.asking {
		return
	}
	if d.search.next(d) {
		return
	}
	d.holding = false
	waiting := d.waiting
	d.waiting = nil
	for _, s := range waiting {
		d.ship(s)
	}
}

// giveUp is the error of what cannot be sent from here any more.
func (d *domain) giveUp() error {
	if d.publisher.closed {
		return handlers.Unavailable(errClosed)
	}
	return handlers.Unavailable(fmt.Errorf("topic %q: %w", d.topic.name, errNoTopic))
}

// judge looks at what came back.
func (d *domain) judge(out *outbox) {
	back := d.returned
	d.returned = nil
	slices.SortFunc(back, func(a, b returned) int { return cmp.Compare(a.number, b.number) })
	cause := causeOf(back)
	switch {
	case len(back) == 0:
		d.search.group = max(2*d.search.group, 1)
	case cause == nil: // Recalled for a neighbour, which found its end in other ways.
		d.search.back(back)
		d.search.group = len(d.search.suspects)
	case isBatchError(cause):
		d.search.narrow(d, back, cause, out)
	default:
		d.search.back(back)
		if isMissing(cause) {
			d.publisher.catalog.forget(d.topic)
			d.publisher.replace()
		}
		// Never as refused, whatever the cause: every refused message would be a fence of its own, and come alone afterwards.
		d.fail(handlers.Unavailable(d.publisher.hooks.explain(cause)), out)
	}
}

// causeOf finds the first error that is not merely the echo of another.
func causeOf(back []returned) error {
	for _, r := range back {
		if !isRecalled(r.err) {
			return r.err
		}
	}
	return nil
}

// fail gives up everything that the domain holds, in order: the lanes send it again, lowest first.
func (d *domain) fail(err error, out *outbox) {
	for _, r := range d.returned {
		out.add(r.shipment, err)
	}
	for _, s := range d.search.suspects {
		out.add(s, err)
	}
	for _, s := range d.waiting {
		out.add(s, err)
	}
	d.returned, d.waiting, d.search, d.holding = nil, nil, search{}, false
}
