package lane

import "time"

// breakGeneration ends the generation after a failure on the way: from now on, and after what is pending, there is one probe at a time.
func (l *Lane) breakGeneration() {
	l.generation++
	l.probing = true
	l.pause()
}

// pause holds the lane for a while, longer each time, before the next ticket is sent.
func (l *Lane) pause() {
	if l.closed {
		return
	}
	l.failures++
	wait := l.settings.Backoff.After(l.failures)
	l.notBefore = time.Now().Add(wait)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.resume)
		return
	}
	l.timer.Reset(wait)
}

func (l *Lane) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeTurn()
}

// opened notes a confirm of this generation: the way is good, the full width is open.
func (l *Lane) opened() {
	l.failures = 0
	l.probing = false
	l.notBefore = time.Time{}
}

// raise forbids to send anything above t until t is settled.
func (l *Lane) raise(t *Ticket) {
	if t.fenced {
		return
	}
	t.fenced = true
	l.fenced++
	l.fence = min(l.fence, t.number)
}

func (l *Lane) unfence(t *Ticket) {
	if !t.fenced {
		return
	}
	t.fenced = false
	l.fenced--
	if l.fence != t.number {
		return
	}
	l.fence = noFence
	if l.fenced == 0 {
		return
	}
	for other := range l.tickets.from(t.number - l.base) {
		if other.fenced {
			l.fence = other.number
			return
		}
	}
}
