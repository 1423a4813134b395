package ledger

import (
	"maps"
	"slices"
	"sync"
)

const (
	pageSize = 4096
	// keptPages is how many complete pages of a lane keep their fingerprints, so that repeats of them are still compared.
	keptPages = 16
)

// lane is the book of one lane. What is known of its messages is kept in pages of consecutive numbers.
type lane struct {
	mu       sync.Mutex
	pages    map[uint64]*page
	complete []uint64 // complete pages that still have their fingerprints, oldest first
	counts   Report   // what is counted as it happens
	highest  uint64   // the highest number so far, once any message has arrived
}

// page is what is known of pageSize consecutive numbers.
type page struct {
	produced, arrived *bits             // nil once the page is complete
	fingerprints      *[pageSize]uint64 // nil once the page is complete and old
	both              int               // how many were produced and have arrived
}

type bits [pageSize / 64]uint64

func (b *bits) has(i uint64) bool { return b == nil || b[i/64]>>(i%64)&1 == 1 }

func (b *bits) set(i uint64) { b[i/64] |= 1 << (i % 64) }

func newLane() *lane { return &lane{pages: map[uint64]*page{}} }

func (l *lane) page(seq uint64) (p *page, i uint64) {
	p = l.pages[seq/pageSize]
	if p == nil {
		p = &page{produced: new(bits), arrived: new(bits), fingerprints: new([pageSize]uint64)}
		l.pages[seq/pageSize] = p
	}
	return p, seq % pageSize
}

func (l *lane) produced(seq, fingerprint uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, i := l.page(seq)
	if p.produced.has(i) {
		return
	}
	p.produced.set(i)
	l.counts.Produced++
	l.match(p, seq, fingerprint, p.arrived.has(i))
}

func (l *lane) arrived(seq, fingerprint uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, i := l.page(seq)
	if p.arrived.has(i) {
		l.counts.Duplicated++
		l.counts.note(Duplicated, seq, "again after %d", l.highest)
		l.compare(p, seq, fingerprint)
		return
	}
	p.arrived.set(i)
	if seq < l.highest {
		l.counts.OutOfOrder++
		l.counts.note(OutOfOrder, seq, "for the first time after %d", l.highest)
	}
	l.highest = max(l.highest, seq)
	l.counts.Arrived++
	l.match(p, seq, fingerprint, p.produced.has(i))
}

// stranger counts a message that says nothing of itself.
func (l *lane) stranger(detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Arrived++
	l.counts.Unknown++
	l.counts.note(Unknown, l.highest, "after this number: %s", detail)
}

// match keeps the fingerprint of the side that comes first, and compares when the other side follows.
func (l *lane) match(p *page, seq, fingerprint uint64, otherSide bool) {
	if !otherSide {
		p.fingerprints[seq%pageSize] = fingerprint
		return
	}
	l.compare(p, seq, fingerprint)
	p.both++
	if p.both < pageSize {
		return
	}
	p.produced, p.arrived = nil, nil
	l.complete = append(l.complete, seq/pageSize)
	if len(l.complete) > keptPages {
		l.pages[l.complete[0]].fingerprints = nil
		l.complete = slices.Delete(l.complete, 0, 1)
	}
}

func (l *lane) compare(p *page, seq, fingerprint uint64) {
	if p.fingerprints == nil || p.fingerprints[seq%pageSize] == fingerprint {
		return
	}
	l.counts.Damaged++
	l.counts.note(Damaged, seq, "fingerprint %016x became %016x", p.fingerprints[seq%pageSize], fingerprint)
}

// report adds to the counts what can only be said at the end: what one side has and the other has not.
func (l *lane) report(name string) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.counts
	r.Findings = slices.Clone(r.Findings)
	for _, number := range slices.Sorted(maps.Keys(l.pages)) {
		if p := l.pages[number]; p.both < pageSize {
			l.settle(&r, p, number*pageSize)
		}
	}
	for i := range r.Findings {
		r.Findings[i].Lane = name
	}
	return r
}

func (l *lane) settle(r *Report, p *page, first uint64) {
	for i := range uint64(pageSize) {
		seq := first + i
		switch produced, arrived := p.produced.has(i), p.arrived.has(i); {
		case produced && !arrived:
			r.Lost++
			r.note(Lost, seq, "%s", l.neighbours(seq))
		case arrived && !produced:
			r.Unknown++
			r.note(Unknown, seq, "%s", l.neighbours(seq))
		}
	}
}

func (l *lane) gaps() []Gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gaps []Gap
	for _, number := range slices.Sorted(maps.Keys(l.pages)) {
		p := l.pages[number]
		for i := range uint64(pageSize) {
			seq := number*pageSize + i
			switch {
			case !p.produced.has(i) || p.arrived.has(i):
			case len(gaps) > 0 && gaps[len(gaps)-1].Last+1 == seq:
				gaps[len(gaps)-1].Last = seq
			default:
				gaps = append(gaps, Gap{seq, seq})
			}
		}
	}
	return gaps
}

// neighbours says what became of the messages beside this one.
func (l *lane) neighbours(seq uint64) string {
	after := "the one after " + l.state(seq+1)
	if seq == 0 {
		return after
	}
	return "the one before " + l.state(seq-1) + ", " + after
}

func (l *lane) state(seq uint64) string {
	p := l.pages[seq/pageSize]
	switch {
	case p == nil:
		return "was not produced"
	case p.arrived.has(seq % pageSize):
		return "arrived"
	case p.produced.has(seq % pageSize):
		return "did not"
	default:
		return "was not produced"
	}
}
