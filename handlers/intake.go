package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// perMessage is what a message in flight costs beside its bytes: its goroutine's stack, the Watermill message, ticket and contexts.
// It is counted against the memory's budget, so that a million tiny messages are bounded too. BenchmarkRelay reports it as inflight-B/msg.
const perMessage = 6 << 10

// handover is how many emitted messages wait for the router at most, so that lanes need not wait for it with each one.
const handover = 64

// Settled is the next part of a lane's settled prefix: to be acked, in this order.
type Settled struct {
	Inlet   *Inlet
	Records []*record.Record
}

// Intake emits what a Reader fetched, lane by lane, within the windows, and commits what is settled.
type Intake struct {
	source   Source
	commit   func(context.Context, []Settled) error
	interval time.Duration
	out      chan *message.Message
	dirty    chan struct{} // Something is settled.
	urgent   chan struct{} // A window is full of it.
	done     chan struct{} // Every lane has ended, and out is closed.

	ctx       context.Context
	mu        sync.Mutex
	inlets    map[*Inlet]struct{}
	stopped   bool
	abandoned bool
	pumps     sync.WaitGroup

	committing sync.Mutex // Held while a commit is under way: closing an inlet waits for it.
}

func newIntake(source Source, commit func(context.Context, []Settled) error, interval time.Duration) *Intake {
	return &Intake{
		source: source, commit: commit, interval: interval,
		out:   make(chan *message.Message, handover),
		dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		done:   make(chan struct{}),
		inlets: map[*Inlet]struct{}{},
	}
}

// start begins to commit. Ctx is what the messages' contexts come from; its end gives up commits under way.
func (in *Intake) start(ctx context.Context) {
	in.ctx = ctx
	go in.run()
}

// Inlet opens a lane. The reader pushes what it fetches for the lane; hungry, which may be nil, is called whenever all that was
// pushed has been emitted. Once the intake is stopped, the new lane emits nothing.
func (in *Intake) Inlet(name string, hungry func()) *Inlet {
	budget := in.source.Budget.Part(0)
	i := &Inlet{
		intake: in, name: name, hungry: hungry, budget: budget,
		lane: lane.New(lane.Settings{
			Window: in.source.Window, Strict: in.source.Strict, Budget: budget, Backoff: in.source.backoff(), Concurrency: in.source.Concurrency,
		}),
		more: make(chan struct{}, 1), took: make(chan struct{}, 1), done: make(chan struct{}),
	}
	i.ctx, i.cancel = context.WithCancel(in.ctx)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped || in.abandoned {
		i.lane.Close()
		i.budget.Remove()
		i.cancel()
		close(i.done)
		return i
	}
	in.inlets[i] = struct{}{}
	in.pumps.Add(1)
	go i.pump()
	return i
}

// stop ends the intake: every lane is stopped, and done is closed when all are empty.
func (in *Intake) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped {
		return
	}
	in.stopped = true
	for i := range in.inlets {
		i.lane.Stop()
	}
	go func() {
		in.pumps.Wait()
		in.discard()
		close(in.out)
		close(in.done)
	}()
}

// discard takes back what was emitted and nobody has received: it was never sent.
func (in *Intake) discard() {
	for {
		select {
		case <-in.out:
		default:
			return
		}
	}
}

// abandon gives up every lane at once, and any that is opened later.
func (in *Intake) abandon() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.abandoned = true
	for i := range in.inlets {
		i.lane.Close()
	}
}

func (in *Intake) isStopped() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.stopped
}

func (in *Intake) lanes() map[string]lane.State {
	in.mu.Lock()
	defer in.mu.Unlock()
	states := make(map[string]lane.State, len(in.inlets))
	for i := range in.inlets {
		states[i.name] = i.lane.State()
	}
	return states
}

func (in *Intake) remove(i *Inlet) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.inlets, i)
	in.pumps.Done()
}

// run commits until every lane has ended.
func (in *Intake) run() {
	failures := 0
	for {
		var wait time.Duration
		select {
		case <-in.done:
			return
		case <-in.urgent:
			wait = in.interval / 20
		case <-in.dirty:
			wait = in.interval
		}
		if failures > 0 {
			wait = in.source.backoff().After(failures)
		}
		in.rest(wait, failures > 0)
		if err := in.commitSettled(); err != nil {
			failures++
			in.source.Meter.CommitFails.Add(1)
			in.source.Health.Down(err)
			notify(in.dirty)
			continue
		}
		failures = 0
	}
}

// rest waits, so that commits come in batches. A full window ends it early, unless the last commit failed.
func (in *Intake) rest(wait time.Duration, failed bool) {
	urgent := in.urgent
	if failed {
		urgent = nil
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-urgent:
	case <-in.done:
	case <-in.ctx.Done():
	}
}

// commitSettled acks what all lanes have settled since the last time.
func (in *Intake) commitSettled() error {
	in.committing.Lock()
	defer in.committing.Unlock()
	in.mu.Lock()
	batch := make([]Settled, 0, len(in.inlets))
	for i := range in.inlets {
		if records := i.settled(); len(records) > 0 {
			batch = append(batch, Settled{Inlet: i, Records: records})
		}
	}
	in.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	if err := in.commit(in.ctx, batch); err != nil {
		return err
	}
	for _, s := range batch {
		s.Inlet.committed(len(s.Records))
		in.source.Meter.Committed.Add(int64(len(s.Records)))
	}
	return nil
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
