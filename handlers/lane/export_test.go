package lane

// Woken reports whether somebody woke the ticket while nobody waited on it.
func (t *Ticket) Woken() bool { return len(t.wake) > 0 }

// Waiting counts who waits for memory of the budget's tree.
func (b *Budget) Waiting() int {
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	return len(b.tree.waiting)
}
