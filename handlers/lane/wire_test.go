package lane_test

import "github.com/stretchr/testify/require"

// link is one connection to the destination. What is put on it arrives in order; a broken one may still deliver, for a while.
type link struct {
	copies []wireCopy
	broken bool
}

// wireCopy is one message on the wire.
type wireCopy struct {
	ticket  *ticketModel
	attempt int
}

// latest tells whether the publisher still waits for the outcome of this very copy.
func (c wireCopy) latest() bool { return c.ticket.onWire && c.attempt == c.ticket.sent }

// put puts a copy of t on the lane's connection. What is put on a dead one, before anybody has noticed, is lost.
func (l *laneModel) put(t *ticketModel) {
	if l.link == nil {
		l.link = &link{}
		l.links = append(l.links, l.link)
	}
	t.sent++
	t.onWire, t.arrived, t.rejected = true, false, false
	if !l.link.broken {
		l.link.copies = append(l.link.copies, wireCopy{ticket: t, attempt: t.sent})
	}
}

func (k *link) take() wireCopy {
	c := k.copies[0]
	k.copies = k.copies[1:]
	return c
}

// arrive lets the oldest message on the connection reach the destination, and checks that nothing overtook it.
func (m *machine) arrive(l *laneModel, k *link) {
	c := k.take()
	t := c.ticket
	if c.latest() {
		t.arrived = true
	}
	if t.seen {
		return
	}
	t.seen = true
	if t.standing == settled {
		return // Parked or dropped while an earlier copy was on a broken connection.
	}
	for _, higher := range l.tickets[t.number+1:] {
		if higher.seen {
			require.LessOrEqualf(m, higher.number, t.mayFollow, "lane %s: message %d arrived for the first time after %d", m.name(l), t.number, higher.number)
		}
	}
}

// recall takes the latest copy of t off the wire.
func (l *laneModel) recall(t *ticketModel) {
	for _, k := range l.links {
		for i, c := range k.copies {
			if c.ticket == t && c.latest() {
				k.copies = append(k.copies[:i:i], k.copies[i+1:]...)
				return
			}
		}
	}
}

// linkOf is the connection on which the latest copy of t is still under way, or nil.
func (l *laneModel) linkOf(t *ticketModel) *link {
	for _, k := range l.links {
		for _, c := range k.copies {
			if c.ticket == t && c.latest() {
				return k
			}
		}
	}
	return nil
}
