package lane

// Woken reports whether somebody woke the ticket while nobody waited on it.
func (t *Ticket) Woken() bool { return len(t.wake) > 0 }
