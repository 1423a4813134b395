package kafka

import (
	"context"
	"sync"
)

// turnstile lets the one who polls and those who take partitions away pass each other: a poll's records are all handed over
// before the partition's next lane can be opened, and nobody waits for data to come. It shares its owner's lock.
type turnstile struct {
	cond    *sync.Cond
	inside  bool
	waiting int
	push    context.CancelFunc
}

func (t *turnstile) init(mu *sync.Mutex) { t.cond = sync.NewCond(mu) }

// enter begins a poll. Its context ends early when somebody waits.
func (t *turnstile) enter(ctx context.Context) context.Context {
	t.cond.L.Lock()
	defer t.cond.L.Unlock()
	for t.waiting > 0 {
		t.cond.Wait()
	}
	t.inside = true
	ctx, t.push = context.WithCancel(ctx)
	return ctx
}

// leave ends a poll, after its records were handed over.
func (t *turnstile) leave() {
	t.cond.L.Lock()
	defer t.cond.L.Unlock()
	t.push()
	t.inside = false
	t.cond.Broadcast()
}

// empty waits until no poll that began earlier is under way. The lock is held.
func (t *turnstile) empty() {
	t.waiting++
	for t.inside {
		t.push()
		t.cond.Wait()
	}
	t.waiting--
	t.cond.Broadcast()
}
