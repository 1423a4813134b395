package lane_test

import (
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

// finish lets everything go well from here on: all that is not cancelled must settle, and all memory come back.
func (m *machine) finish() {
	for round := 0; m.round(); round++ {
		require.Less(m, round, 4*maxTickets, "the lanes make no progress")
	}
	for _, l := range m.lanes {
		m.finished(l)
		l.Close()
	}
	require.Zero(m, m.budget.Used())
}

// round brings every ticket a step further, and reports whether there was one to bring.
func (m *machine) round() (busy bool) {
	for _, l := range m.lanes {
		m.make(move{do: func(m *machine, _ *laneModel, _ *ticketModel) { m.advance() }}, l, nil)
		for _, k := range underWay(l) {
			for len(k.copies) > 0 {
				m.arrive(l, k)
			}
		}
		for _, t := range l.tickets {
			if t.standing == settled || l.cancelled(t) && t.standing == waiting && !t.inEnter {
				continue
			}
			busy = true
			m.further(l, t)
		}
	}
	return busy
}

func (m *machine) further(l *laneModel, t *ticketModel) {
	do := func(f func(*machine, *laneModel, *ticketModel)) { m.make(move{do: f}, l, t) }
	if canEnter(m, l, t) && t.standing == waiting {
		do(enter)
	}
	switch {
	case t.standing == entered && !t.onWire:
		do(handOver)
	case !t.onWire:
	case t.rejected:
		do(resolver(lane.Refused))
	case t.arrived:
		do(resolver(lane.Confirmed))
	default:
		do(fail)
	}
}

func (m *machine) finished(l *laneModel) {
	if l.closed {
		require.Zero(m, l.budget.Used())
		return
	}
	l.Committed(uint64(len(l.tickets)))
	l.commit(len(l.tickets))
	m.compare(l)
	if l.stopped {
		require.True(m, l.Drained())
		return
	}
	require.EqualValues(m, len(l.tickets), l.Settled())
	require.Zero(m, l.budget.Used())
}
