package lane

import "iter"

// ring holds the tickets in flight, oldest first. It grows to the largest number that were in flight at once.
type ring struct {
	slots []*Ticket // Its length is a power of two.
	head  int
	count int
}

func (r *ring) push(t *Ticket) {
	if r.count == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.count)&(len(r.slots)-1)] = t
	r.count++
}

func (r *ring) pop() *Ticket {
	t := r.slots[r.head]
	r.slots[r.head] = nil
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.count--
	return t
}

func (r *ring) at(i uint64) *Ticket {
	return r.slots[(r.head+int(i))&(len(r.slots)-1)]
}

// from goes over the tickets from the i-th oldest on.
func (r *ring) from(i uint64) iter.Seq[*Ticket] {
	return func(yield func(*Ticket) bool) {
		for ; i < uint64(r.count); i++ {
			if !yield(r.at(i)) {
				return
			}
		}
	}
}

func (r *ring) grow() {
	bigger := make([]*Ticket, max(16, 2*len(r.slots)))
	for i := range r.count {
		bigger[i] = r.at(uint64(i))
	}
	r.slots, r.head = bigger, 0
}
