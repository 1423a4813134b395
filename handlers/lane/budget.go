package lane

import "sync"

// Budget is a part of the process's memory, in bytes, that is divided among its parts: the process's among the routes, a
// route's among its lanes. Half of it is guaranteed to the parts in equal shares, the other half is for whoever comes first, so that a part
// that is stuck never takes everything. Whoever holds nothing may always take one message, however large. A nil Budget has no limit. Safe for concurrent use.
type Budget struct {
	tree   *tree
	parent *Budget
	parts  map[*Budget]struct{}
	total  int64
	used   int64
	over   int64 // How much the parts hold beyond their shares, together.
}

// tree is what the budgets of one process have in common.
type tree struct {
	mu      sync.Mutex
	waiting map[chan<- struct{}]struct{} // One place each, however often it asks.
}

// NewBudget makes the budget of a process.
func NewBudget(total int64) *Budget {
	return &Budget{tree: &tree{waiting: map[chan<- struct{}]struct{}{}}, total: total}
}

// Part makes a part of the budget that may use up to total bytes of it. A total of 0 or less means as much as b has. A part of a nil Budget is nil.
func (b *Budget) Part(total int64) *Budget {
	if b == nil {
		return nil
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	if total <= 0 || total > b.total {
		total = b.total
	}
	part := &Budget{tree: b.tree, parent: b, total: total}
	if b.parts == nil {
		b.parts = map[*Budget]struct{}{}
	}
	b.parts[part] = struct{}{}
	b.recount()
	return part
}

// Remove takes the part out of its parent: its share goes to the others. What it still holds stays counted until it is given back.
func (b *Budget) Remove() {
	if b == nil || b.parent == nil {
		return
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	delete(b.parent.parts, b)
	b.parent.recount()
	b.tree.wake()
}

// Used tells how many bytes are taken now.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	return b.used
}

// acquire takes n bytes, or reports false and arranges that retry receives a value when some were given back.
func (b *Budget) acquire(n int64, retry chan<- struct{}) bool {
	if b == nil {
		return true
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	if b.used > 0 && !b.fits(n) {
		b.tree.waiting[retry] = struct{}{}
		return false
	}
	b.add(n)
	return true
}

func (b *Budget) release(n int64) {
	if b == nil || n == 0 {
		return
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	b.add(-n)
	b.tree.wake()
}

// fits reports whether n more bytes are within the share of b or the common half, here and in every parent.
func (b *Budget) fits(n int64) bool {
	if b.used+n > b.total {
		return false
	}
	if b.parent == nil {
		return true
	}
	share := b.parent.share()
	more := excess(b.used+n, share) - excess(b.used, share)
	return (more == 0 || b.parent.over+more <= b.parent.total/2) && b.parent.fits(n)
}

func (b *Budget) add(n int64) {
	before := b.used
	b.used += n
	if b.parent == nil {
		return
	}
	share := b.parent.share()
	if _, ok := b.parent.parts[b]; ok {
		b.parent.over += excess(b.used, share) - excess(before, share)
	}
	b.parent.add(n)
}

func (b *Budget) share() int64 { return b.total / 2 / int64(max(len(b.parts), 1)) }

func (b *Budget) recount() {
	b.over = 0
	for part := range b.parts {
		b.over += excess(part.used, b.share())
	}
}

func excess(used, share int64) int64 { return max(used-share, 0) }

func (t *tree) wake() {
	for retry := range t.waiting {
		select {
		case retry <- struct{}{}:
		default:
		}
	}
	clear(t.waiting)
}
