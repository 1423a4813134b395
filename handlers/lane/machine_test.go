package lane_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/lane"
)

const (
	maxTickets = 40
	maxSteps   = 300
	tick       = time.Nanosecond
)

// machine drives lanes through moves drawn at random, and compares them with the model after each.
type machine struct {
	*rapid.T
	lanes  []*laneModel
	budget *lane.Budget
	total  int64
	step   int
}

func TestTheRulesHoldWhateverHappens(t *testing.T) {
	for range 3 {
		rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, run) })
	}
}

func run(t *rapid.T) {
	m := newMachine(t)
	t.Cleanup(m.closeAll)
	for m.step = range m.pick("steps", maxSteps) {
		m.move()
	}
	m.finish()
}

func newMachine(t *rapid.T) *machine {
	m := &machine{T: t}
	m.total = int64(50 + m.pick("budget", 950))
	m.budget = lane.NewBudget(m.total)
	for range 1 + m.pick("lanes", 5)/2 {
		l := &laneModel{
			total:    1 + m.total*int64(m.pick("part", 100))/100,
			window:   1 + m.pick("window", 6),
			strict:   m.pick("strict", 4) == 3,
			stock:    m.pick("stock", 6) == 5,
			stopFrom: m.pick("stop", 2*maxSteps),
			killFrom: m.pick("close", 2*maxSteps),
		}
		l.budget = m.budget.Part(l.total)
		l.Lane = lane.New(lane.Settings{
			Window:  l.window,
			Strict:  l.strict,
			Budget:  l.budget,
			Backoff: lane.Backoff{Initial: tick, Max: tick},
		})
		m.lanes = append(m.lanes, l)
	}
	return m
}

// pick draws one of n: each as likely as the other, which rapid's own ranges are not.
func (m *machine) pick(label string, n int) int {
	return evenly.Draw(m.T, label) % n
}

var evenly = rapid.Map(rapid.SliceOfN(rapid.Bool(), 10, 10), func(bits []bool) (k int) {
	for _, bit := range bits {
		k *= 2
		if bit {
			k++
		}
	}
	return k
})

func (m *machine) name(l *laneModel) string {
	for i, other := range m.lanes {
		if other == l {
			return strconv.Itoa(i)
		}
	}
	return "?"
}

// move makes one move that is possible now: first its kind is drawn, so that rare ones come too, then whose it is.
func (m *machine) move() {
	l := m.lanes[m.pick("lane", len(m.lanes))]
	var moves []move
	var whose [][]*ticketModel
	add := func(o move, tickets []*ticketModel) {
		for range o.weight {
			moves, whose = append(moves, o), append(whose, tickets)
		}
	}
	for _, o := range laneMoves {
		if o.can(m, l, nil) {
			add(o, []*ticketModel{nil})
		}
	}
	for _, o := range ticketMoves {
		var tickets []*ticketModel
		for _, t := range l.tickets[l.base:] {
			if o.can(m, l, t) {
				tickets = append(tickets, t)
			}
		}
		if len(tickets) > 0 {
			add(o, tickets)
		}
	}
	k := m.pick("move", len(moves))
	t := whose[k][m.pick("ticket", len(whose[k]))]
	if t == nil {
		m.Logf("step %d: lane %s: %s", m.step, m.name(l), moves[k].name)
	} else {
		m.Logf("step %d: lane %s: %s %d", m.step, m.name(l), moves[k].name, t.number)
	}
	m.make(moves[k], l, t)
}

// make makes a move and compares what came of it with the model.
func (m *machine) make(o move, l *laneModel, t *ticketModel) {
	for _, l := range m.lanes {
		select {
		case <-l.Signal():
		default:
		}
	}
	used, prefix := m.budget.Used(), l.prefix
	o.do(m, l, t)
	synctest.Wait()
	for _, l := range m.lanes {
		m.entries(l)
		m.compare(l)
	}
	if l.prefix > prefix {
		require.Len(m, l.Signal(), 1, "the prefix moved, and nobody was told")
	}
	if m.budget.Used() >= used {
		return
	}
	for _, l := range m.lanes {
		require.True(m, !l.hungry || len(l.Signal()) == 1, "memory was given back, and a lane that waits for it was not told")
		l.hungry = false
	}
}

// entries checks who has returned from Enter, and that nobody waits there who may go.
func (m *machine) entries(l *laneModel) {
	for _, t := range l.tickets {
		if !t.inEnter || len(t.entry) == 0 {
			continue
		}
		err := <-t.entry
		t.inEnter = false
		switch err {
		case nil:
			require.Truef(m, l.mayGo(t), "ticket %d may not enter now", t.number)
			t.standing, t.generation = entered, l.generation
			l.cut = max(l.cut, t.number+1)
		case lane.ErrSettled:
			require.Equal(m, settled, t.standing)
		default:
			require.ErrorIs(m, err, lane.ErrCancelled)
			require.Truef(m, l.cancelled(t), "ticket %d is not cancelled", t.number)
		}
	}
	for _, t := range l.tickets {
		if t.inEnter {
			require.Falsef(m, l.mayGo(t), "ticket %d may enter, and waits", t.number)
			require.Falsef(m, l.cancelled(t), "ticket %d is cancelled, and waits", t.number)
			require.NotEqualf(m, settled, t.standing, "ticket %d is settled, and waits", t.number)
		}
	}
}

// compare checks all that the lane tells about itself.
func (m *machine) compare(l *laneModel) {
	require.EqualValues(m, l.prefix, l.Settled())
	s := l.State()
	require.Equal(m, len(l.tickets)-l.base, s.InFlight)
	require.Equal(m, len(l.tickets)-l.prefix, s.Unsettled)
	require.LessOrEqual(m, s.InFlight, l.window)
	require.Equal(m, l.count(func(t *ticketModel) bool { return t.standing == pending }), s.OnWire)
	require.Equal(m, l.count(func(t *ticketModel) bool { return t.fenced }) > 0, s.Held)
	require.Equal(m, l.probing, s.Probing)
	require.Equal(m, l.failures, s.Failures)
	require.Equal(m, l.closed, s.Closed)
	require.Equal(m, l.stopped, s.Stopped)
	require.Equal(m, l.stopped && l.prefix >= l.cut && l.base == l.prefix, l.Drained())
	require.Equal(m, l.held(), l.budget.Used())
	for _, t := range l.tickets {
		require.Equal(m, t.outcome, t.Outcome())
		require.Equal(m, l.cancelled(t), t.Cancelled())
	}
}

func (m *machine) drawLink(l *laneModel) *link {
	links := underWay(l)
	return links[m.pick("link", len(links))]
}

// advance moves the bubble's clock: nothing is waited for.
func (m *machine) advance() { time.Sleep(tick) }

func (m *machine) closeAll() {
	for _, l := range m.lanes {
		l.Close()
	}
}
