package lane_test

import (
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

// move is something that may happen to a ticket, or, where t is nil, to a lane.
type move struct {
	name   string
	weight int
	can    func(m *machine, l *laneModel, t *ticketModel) bool
	do     func(m *machine, l *laneModel, t *ticketModel)
}

var laneMoves = []move{
	{"issue", 4, canIssue, issue},
	{"commit", 1, always, commit},
	{"time passes", 2, always, func(m *machine, _ *laneModel, _ *ticketModel) { m.advance() }},
	{"arrive", 6, someUnderWay, func(m *machine, l *laneModel, _ *ticketModel) { m.arrive(l, m.drawLink(l)) }},
	{"reject", 1, someUnderWay, reject},
	{"cut the wire", 1, someUnderWay, func(m *machine, l *laneModel, _ *ticketModel) { k := m.drawLink(l); k.broken, k.copies = true, nil }},
	{"stop", 1, func(m *machine, l *laneModel, _ *ticketModel) bool { return m.step > l.stopFrom && !l.stopped }, stop},
	{"close", 1, func(m *machine, l *laneModel, _ *ticketModel) bool { return m.step > l.killFrom && !l.closed }, kill},
}

var ticketMoves = []move{
	{"enter", 5, canEnter, enter},
	{"hand over", 6, func(_ *machine, _ *laneModel, t *ticketModel) bool { return t.standing == entered && !t.onWire }, handOver},
	{"confirm", 4, func(_ *machine, _ *laneModel, t *ticketModel) bool { return t.onWire && t.arrived }, resolver(lane.Confirmed)},
	{"refuse", 6, func(_ *machine, _ *laneModel, t *ticketModel) bool { return t.onWire && t.rejected }, resolver(lane.Refused)},
	{"fail", 1, func(_ *machine, _ *laneModel, t *ticketModel) bool { return t.onWire }, fail},
	{"fail the batch", 1, canFailBatch, failBatch},
	{"fail before sending", 1, justEntered, resolver(lane.Failed)},
	{"refuse before sending", 1, justEntered, resolver(lane.Refused)},
	{"suspend", 1, always, suspend},
	{"say it twice", 1, func(_ *machine, _ *laneModel, t *ticketModel) bool {
		return t.standing == waiting || t.standing == settled
	}, sayTwice},
	{"begin to park", 1, always, beginToPark},
	{"park", 1, canSettle, settler(lane.Parked)},
	{"drop", 1, canSettle, settler(lane.Dropped)},
}

func always(*machine, *laneModel, *ticketModel) bool { return true }

func canIssue(_ *machine, l *laneModel, _ *ticketModel) bool { return len(l.tickets) < maxTickets }

func someUnderWay(_ *machine, l *laneModel, _ *ticketModel) bool { return len(underWay(l)) > 0 }

func underWay(l *laneModel) (links []*link) {
	for _, k := range l.links {
		if len(k.copies) > 0 {
			links = append(links, k)
		}
	}
	return links
}

// canEnter allows all that a chain may do, in any order: try again, be emitted again while the last attempt is pending, come back after a panic.
func canEnter(_ *machine, _ *laneModel, t *ticketModel) bool {
	return !t.inEnter && (t.standing != entered || !t.onWire)
}

func justEntered(_ *machine, _ *laneModel, t *ticketModel) bool {
	return t.standing == entered && !t.onWire && !t.inEnter
}

func canFailBatch(_ *machine, l *laneModel, t *ticketModel) bool {
	k := l.linkOf(t)
	return t.standing == pending && !t.arrived && !t.rejected && k != nil && !k.broken
}

func canSettle(_ *machine, _ *laneModel, t *ticketModel) bool {
	return t.standing != entered || !t.onWire
}

func issue(m *machine, l *laneModel, _ *ticketModel) {
	size := int64(m.pick("size", 101))
	t := &ticketModel{number: len(l.tickets), held: size, mayFollow: -1, entry: make(chan error, 1)}
	room := !l.stopped && !l.closed && len(l.tickets)-l.base < l.window
	mine, all := l.budget.Used(), m.budget.Used()
	share := min(l.total, m.total/2/int64(len(m.lanes)))
	ok := l.Issue(&t.Ticket, size)
	switch {
	case !ok && !room:
		return
	case !ok:
		require.True(m, mine > 0, "a lane with nothing in flight has room for one message")
		require.True(m, mine+size > share || all+size > m.total, "a lane's share is its own: %d+%d of %d", mine, size, share)
		l.hungry = true
		return
	}
	require.True(m, room, "the window is full, or the lane has ended")
	if mine > 0 {
		require.LessOrEqual(m, mine+size, l.total)
		require.LessOrEqual(m, all+size, m.total)
	}
	require.EqualValues(m, t.number, t.Number())
	l.tickets = append(l.tickets, t)
}

func commit(m *machine, l *laneModel, _ *ticketModel) {
	n := m.pick("how far", len(l.tickets)+2)
	l.Committed(uint64(n))
	l.commit(n)
}

func reject(m *machine, l *laneModel, _ *ticketModel) {
	k := m.drawLink(l)
	c := k.take()
	c.ticket.mayFollow = max(c.ticket.mayFollow, l.top())
	c.ticket.rejected = c.ticket.rejected || c.latest() && !k.broken
}

func stop(_ *machine, l *laneModel, _ *ticketModel) {
	l.Stop()
	l.stopped = true
}

func kill(_ *machine, l *laneModel, _ *ticketModel) {
	l.Close()
	l.close()
}

func enter(_ *machine, _ *laneModel, t *ticketModel) {
	if t.standing == entered {
		t.standing = waiting
	}
	t.inEnter = true
	go func() { t.entry <- t.Enter() }()
}

func handOver(m *machine, l *laneModel, t *ticketModel) {
	for _, higher := range l.tickets[t.number+1:] {
		require.Truef(m, t.sent > 0 || higher.sent == 0, "ticket %d is sent for the first time after %d", t.number, higher.number)
	}
	if l.stock {
		l.put(t)
		return
	}
	put := false
	ok := t.Enqueue(func() { put = true })
	require.Equal(m, l.keepsTurn(t), ok)
	require.Equal(m, ok, put)
	if !ok {
		t.standing = waiting
		return
	}
	t.standing = pending
	l.put(t)
}

func resolver(o lane.Outcome) func(*machine, *laneModel, *ticketModel) {
	return func(_ *machine, l *laneModel, t *ticketModel) {
		t.Resolve(o)
		l.resolve(t, o)
	}
}

// fail breaks the connection: everything on it will fail, or is confirmed just in time.
func fail(_ *machine, l *laneModel, t *ticketModel) {
	if k := l.linkOf(t); k != nil {
		k.broken = true
	}
	if l.link != nil && t.generation == l.generation {
		l.link.broken = true
		l.link = nil
	}
	t.Resolve(lane.Failed)
	l.resolve(t, lane.Failed)
}

// failBatch fails one message while the connection stays and its successors are on the wire.
func failBatch(_ *machine, l *laneModel, t *ticketModel) {
	l.recall(t)
	t.mayFollow = max(t.mayFollow, l.top())
	t.Resolve(lane.Failed)
	l.resolve(t, lane.Failed)
}

func suspend(_ *machine, _ *laneModel, t *ticketModel) {
	t.Suspend()
	if t.standing == pending {
		t.fenced = true
	}
}

func sayTwice(m *machine, _ *laneModel, t *ticketModel) {
	t.Resolve([]lane.Outcome{lane.Confirmed, lane.Failed, lane.Refused}[m.pick("outcome", 3)])
}

func beginToPark(m *machine, l *laneModel, t *ticketModel) {
	want := (t.standing == waiting || t.standing == entered) && !l.cancelled(t)
	require.Equal(m, want, t.Parking())
	if want {
		l.cut = max(l.cut, t.number+1)
	}
}

func settler(o lane.Outcome) func(*machine, *laneModel, *ticketModel) {
	return func(m *machine, l *laneModel, t *ticketModel) {
		want := t.standing == waiting || t.standing == entered
		require.Equal(m, want, t.Settle(o))
		if !want {
			return
		}
		if o == lane.Parked && !l.stopped {
			l.cut = max(l.cut, t.number+1)
		}
		l.settle(t, o)
	}
}
