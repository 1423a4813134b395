package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// Inlet is one open lane of an Intake. One goroutine pushes; the other methods are safe for concurrent use.
type Inlet struct {
	intake *Intake
	name   string
	hungry func()
	budget *lane.Budget
	lane   *lane.Lane
	ctx    context.Context // Of the lane's messages; ends with the lane.
	cancel context.CancelFunc
	more   chan struct{} // Something was pushed.
	took   chan struct{} // All that was pushed has been emitted.
	done   chan struct{} // The pump has ended.

	mu      sync.Mutex
	backlog []*record.Record // Fetched, and not yet in the window.
	items   []*item          // In the window, oldest first.
	base    uint64           // The number of the oldest.

	// The pump's own.
	watched uint64    // The lowest ticket of which nobody has said ack or nack.
	again   []*item   // Nacked, to be emitted again in this order,
	againAt time.Time // not before this.
	retried *item     // The last one that was.
	swept   uint64    // Tickets below were looked through for nacks, after one that was emitted again went well.
	fresh   *item     // It has a ticket, and was not emitted yet.
}

// item is what the lane knows of one message.
type item struct {
	ticket   lane.Ticket
	turn     Turn
	record   *record.Record
	message  *message.Message
	attempts int
	queued   bool // To be emitted again.
}

type itemKey struct{}

// messageContext is the context of an emitted message: the lane's, with the message's record and ticket in it.
type messageContext struct {
	context.Context
	item *item
}

func (c *messageContext) Value(key any) any {
	switch key {
	case itemKey{}:
		return c.item
	case record.Key():
		return c.item.record
	}
	return c.Context.Value(key)
}

// Name is the lane's name, as given to Intake.Inlet.
func (i *Inlet) Name() string { return i.name }

// Offer hands fetched records over, in order. It never blocks; Backlog tells what has gathered.
func (i *Inlet) Offer(records ...*record.Record) {
	i.mu.Lock()
	i.backlog = append(i.backlog, records...)
	i.mu.Unlock()
	i.intake.source.Meter.Fetched.Add(int64(len(records)))
	notify(i.more)
}

// Push hands fetched records over, in order, once everything pushed before has been emitted: so one batch is being emitted while the next is
// being fetched. It returns an error when ctx or the lane ends first.
func (i *Inlet) Push(ctx context.Context, records ...*record.Record) error {
	for i.Backlog() > 0 {
		select {
		case <-i.took:
		case <-ctx.Done():
			return ctx.Err()
		case <-i.done:
			return lane.ErrCancelled
		}
	}
	i.Offer(records...)
	return nil
}

// Backlog counts the records that were handed over and have no place in the window yet.
func (i *Inlet) Backlog() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.backlog)
}

// Drain stops the lane and waits until what was sent is settled and committed, or ctx ends. Close it afterwards in either case.
func (i *Inlet) Drain(ctx context.Context) error {
	i.lane.Stop()
	select {
	case <-i.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close gives the lane up: it was lost, or is drained. When it returns, no commit for it is under way, and none will come.
func (i *Inlet) Close() {
	i.lane.Close()
	<-i.done
	i.intake.committing.Lock()
	defer i.intake.committing.Unlock()
}

// pump emits the lane's messages and watches what becomes of them, until the lane has ended.
func (i *Inlet) pump() {
	defer i.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !i.ended() {
		it := i.choose()
		if it != nil && i.emit(it) {
			continue
		}
		var out chan<- *message.Message
		var msg *message.Message
		switch {
		case it != nil:
			out, msg = i.intake.out, it.message
		case len(i.again) > 0:
			timer.Reset(time.Until(i.againAt))
		}
		acked, nacked := i.awaited()
		select {
		case out <- msg:
			i.emitted(it)
		case <-i.lane.Signal():
		case <-i.more:
		case <-acked:
		case <-nacked:
		case <-timer.C:
		}
	}
}

// emit hands it over if that is possible at once.
func (i *Inlet) emit(it *item) bool {
	select {
	case i.intake.out <- it.message:
		i.emitted(it)
		return true
	default:
		return false
	}
}

// end takes the lane out. A clean stop cancels no message's context; the loss of the lane does.
func (i *Inlet) end() {
	if i.lane.State().Closed || !i.intake.isStopped() {
		i.cancel()
	}
	i.lane.Close() // Gives back the memory of what was never sent.
	i.budget.Remove()
	i.intake.remove(i)
	close(i.done)
}

// ended looks at what became of the messages, reports whether there is nothing left to do, and asks for the commits that are due.
func (i *Inlet) ended() bool {
	s := i.lane.State()
	if s.Closed {
		return true
	}
	i.watch() // After the state was read: an ack that came before the stop counts.
	if i.lane.Settled() > i.committedTo() {
		notify(i.intake.dirty)
		if s.Stopped || s.InFlight-s.Unsettled >= i.intake.source.Window/4 {
			notify(i.intake.urgent)
		}
	}
	return s.Stopped && i.lane.Drained()
}

// watch goes over the tickets that are settled, acked or nacked by now, in order.
func (i *Inlet) watch() {
	i.watched = max(i.watched, i.lane.Settled())
	if i.retried != nil && i.retried.ticket.Outcome() != lane.Unsettled {
		i.retried = nil
		i.sweep()
	}
	for {
		it := i.item(i.watched)
		if it == nil || it == i.fresh || it.queued {
			return
		}
		select {
		case <-it.message.Acked():
			it.ticket.Settle(lane.Confirmed)
			i.watched = max(i.watched+1, i.lane.Settled())
		case <-it.message.Nacked():
			i.nacked(it)
		default:
			return
		}
	}
}

// nacked arranges that a message whose chain failed is emitted again, after a pause, unless its lane has no use for it any more.
func (i *Inlet) nacked(it *item) {
	if it.ticket.Outcome() != lane.Unsettled || it.ticket.Cancelled() {
		i.watched++
		return
	}
	i.queue(it)
	i.swept = 0
	i.againAt = time.Now().Add(i.intake.source.backoff().After(it.attempts))
}

// sweep queues whatever else was nacked meanwhile, without a pause: the message that was emitted again went well, so what
// troubled them all is over.
func (i *Inlet) sweep() {
	i.swept = max(i.swept, i.watched)
	for {
		it := i.item(i.swept)
		if it == nil || it == i.fresh {
			return
		}
		i.swept++
		select {
		case <-it.message.Nacked():
			if !it.queued && it.ticket.Outcome() == lane.Unsettled {
				i.queue(it)
			}
		default:
		}
	}
}

func (i *Inlet) queue(it *item) {
	it.attempts++
	it.queued = true
	it.message = i.messageFor(it)
	i.again = append(i.again, it)
	i.intake.source.Meter.Nacked.Add(1)
}

// choose picks what to emit: what was nacked before anything new.
func (i *Inlet) choose() *item {
	for len(i.again) > 0 && i.again[0].ticket.Cancelled() {
		i.again = i.again[1:]
	}
	if len(i.again) > 0 && !time.Now().Before(i.againAt) {
		return i.again[0]
	}
	if i.fresh == nil {
		i.fresh = i.issue()
	}
	if i.fresh != nil && i.fresh.ticket.Cancelled() {
		return nil
	}
	return i.fresh
}

// issue gives the next fetched record its ticket, if the window has room.
func (i *Inlet) issue() *item {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.backlog) == 0 {
		return nil
	}
	r := i.backlog[0]
	it := &item{record: r}
	if !i.lane.Issue(&it.ticket, int64(r.Size())+perMessage) {
		notify(i.intake.urgent)
		return nil
	}
	it.turn.ticket = &it.ticket
	it.message = i.messageFor(it)
	i.items = append(i.items, it)
	i.backlog[0] = nil
	if i.backlog = i.backlog[1:]; len(i.backlog) == 0 {
		i.backlog = nil
	}
	return it
}

func (i *Inlet) emitted(it *item) {
	if it.queued {
		it.queued = false
		i.again = i.again[1:]
		i.retried = it
		return
	}
	i.fresh = nil
	if i.Backlog() > 0 {
		return
	}
	notify(i.took)
	if i.hungry != nil {
		i.hungry()
	}
}

func (i *Inlet) messageFor(it *item) *message.Message {
	return it.record.Message(&messageContext{Context: i.ctx, item: it})
}

// awaited gives the channels of the lowest message of which nobody has said ack or nack.
func (i *Inlet) awaited() (acked, nacked <-chan struct{}) {
	it := i.item(i.watched)
	if it == nil || it == i.fresh || it.queued {
		return nil, nil
	}
	return it.message.Acked(), it.message.Nacked()
}

func (i *Inlet) item(number uint64) *item {
	i.mu.Lock()
	defer i.mu.Unlock()
	if number < i.base || number-i.base >= uint64(len(i.items)) {
		return nil
	}
	return i.items[number-i.base]
}

func (i *Inlet) committedTo() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.base
}

// settled lists the records that may be acked: none once the lane is closed.
func (i *Inlet) settled() []*record.Record {
	if i.lane.State().Closed {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	n := int(i.lane.Settled() - i.base)
	records := make([]*record.Record, n)
	for k := range records {
		records[k] = i.items[k].record
	}
	return records
}

// committed forgets the n oldest messages: the source has acked them.
func (i *Inlet) committed(n int) {
	i.mu.Lock()
	clear(i.items[:n])
	i.items = i.items[n:]
	i.base += uint64(n)
	base := i.base
	i.mu.Unlock()
	i.lane.Committed(base)
}
