package lane_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

func laneOf(b *lane.Budget) *lane.Lane { return lane.New(lane.Settings{Window: 10_000, Budget: b}) }

// fill issues tickets of 10 bytes until there is no room, and gives them.
func fill(l *lane.Lane) (tickets []*lane.Ticket) {
	for {
		t := &lane.Ticket{}
		if !l.Issue(t, 10) {
			return tickets
		}
		tickets = append(tickets, t)
	}
}

// giveBack drops and commits the n oldest of the tickets.
func giveBack(l *lane.Lane, tickets []*lane.Ticket, n int) {
	for _, t := range tickets[:n] {
		t.Settle(lane.Dropped)
	}
	l.Committed(l.Settled())
}

func signalled(l *lane.Lane) bool {
	select {
	case <-l.Signal():
		return true
	default:
		return false
	}
}

func TestAStuckLaneLeavesTheOthersTheirShare(t *testing.T) {
	b := lane.NewBudget(1000)
	stuck, other := laneOf(b.Part(0)), laneOf(b.Part(0))
	require.Len(t, fill(stuck), 75, "its share of the guaranteed half, and the common half")
	require.Len(t, fill(other), 25, "its share of the guaranteed half")
	require.EqualValues(t, 1000, b.Used())
}

func TestAStuckRouteLeavesTheOthersTheirShareOfTheProcess(t *testing.T) {
	process := lane.NewBudget(1000)
	stuck, other := process.Part(0), process.Part(800)
	lanes := []*lane.Lane{laneOf(stuck.Part(0)), laneOf(stuck.Part(0)), laneOf(other.Part(0)), laneOf(other.Part(0))}
	fill(lanes[0])
	fill(lanes[1])
	require.EqualValues(t, 760, stuck.Used(), "its share, the common half, and the one message that a lane always keeps")
	require.NotEmpty(t, fill(lanes[2]))
	require.NotEmpty(t, fill(lanes[3]))
	require.EqualValues(t, 250, other.Used(), "its share")
	require.EqualValues(t, 1010, process.Used())
}

func TestAPartStaysWithinItsOwnTotal(t *testing.T) {
	b := lane.NewBudget(1000)
	require.Len(t, fill(laneOf(b.Part(100))), 10)
	route := lane.NewBudget(320).Part(5000) // No more than the whole.
	first, second := laneOf(route.Part(0)), laneOf(route.Part(0))
	require.Len(t, fill(first), 24)
	require.Len(t, fill(second), 8)
}

func TestWhoHoldsNothingMayTakeOneMessageHoweverLarge(t *testing.T) {
	b := lane.NewBudget(100)
	one, two := b.Part(50), b.Part(50)
	big, small := laneOf(one), laneOf(two)
	var first, second, third lane.Ticket
	require.True(t, big.Issue(&first, 1_000_000))
	require.False(t, big.Issue(&second, 1))
	require.True(t, small.Issue(&second, 1), "a lane always keeps one message")
	require.False(t, small.Issue(&third, 1))
	giveBack(big, []*lane.Ticket{&first}, 1)
	require.True(t, signalled(small))
	require.True(t, small.Issue(&third, 1))
	require.EqualValues(t, 2, b.Used())
}

func TestWhatIsGivenBackWakesWhoeverWaits(t *testing.T) {
	b := lane.NewBudget(1000)
	giver, taker := laneOf(b.Part(0)), laneOf(b.Part(0))
	tickets := fill(giver)
	fill(taker)
	require.False(t, signalled(taker))
	giveBack(giver, tickets, 3)
	require.True(t, signalled(taker))
	require.Len(t, fill(taker), 3)
}

func TestALaneWaitsOnceHoweverOftenItAsks(t *testing.T) {
	b := lane.NewBudget(100)
	l := laneOf(b.Part(0))
	tickets := fill(l)
	for range 1000 {
		require.False(t, l.Issue(&lane.Ticket{}, 10))
	}
	require.Equal(t, 1, b.Waiting())
	giveBack(l, tickets, 1)
	require.Zero(t, b.Waiting())
}

func TestThePartThatIsRemovedLeavesItsShareToTheOthers(t *testing.T) {
	b := lane.NewBudget(1000)
	parts := []*lane.Budget{b.Part(0), b.Part(0)}
	gone, left := laneOf(parts[0]), laneOf(parts[1])
	tickets := fill(gone)
	require.Len(t, tickets, 75)
	fill(left)
	require.False(t, signalled(left))
	parts[0].Remove()
	require.True(t, signalled(left))
	require.Empty(t, fill(left), "what it holds is counted until it is given back")
	giveBack(gone, tickets, 60)
	require.True(t, signalled(left))
	require.Len(t, fill(left), 60)
	require.EqualValues(t, 1000, b.Used())
	gone.Close()
	left.Close()
	require.Zero(t, b.Used())
}

func TestWhatARemovedPartGivesBackIsNotCountedTwice(t *testing.T) {
	b := lane.NewBudget(1200)
	parts := []*lane.Budget{b.Part(0), b.Part(0), b.Part(0)}
	gone, greedy, modest := laneOf(parts[0]), laneOf(parts[1]), laneOf(parts[2])
	tickets := fill(gone)
	require.Len(t, tickets, 80)
	parts[0].Remove()
	giveBack(gone, tickets, 80)
	require.Len(t, fill(greedy), 90)
	require.Len(t, fill(modest), 30)
}

func TestTheSharesShrinkWhenAPartJoins(t *testing.T) {
	b := lane.NewBudget(1000)
	l := laneOf(b.Part(0))
	tickets := fill(l)
	require.Len(t, tickets, 100, "alone it may take all")
	newcomer := laneOf(b.Part(0))
	require.Len(t, fill(newcomer), 1, "until something is given back, one message at a time")
	giveBack(l, tickets, 30)
	require.Len(t, fill(l), 5, "its share is smaller now")
	require.Len(t, fill(newcomer), 24, "its own share waits for nobody")
}

func TestTheMemoryOfAClosedLaneComesBackWithTheOutcomes(t *testing.T) {
	b := lane.NewBudget(1000)
	l := laneOf(b.Part(0))
	tickets := fill(l)[:6]
	for _, ticket := range tickets[:5] {
		require.NoError(t, ticket.Enter())
		require.True(t, ticket.Enqueue(func() {}))
	}
	tickets[0].Resolve(lane.Confirmed)
	require.NoError(t, tickets[5].Enter())
	l.Close()
	require.EqualValues(t, 40, b.Used())
	l.Close()
	l.Committed(1)
	require.EqualValues(t, 40, b.Used())
	tickets[1].Resolve(lane.Confirmed)
	tickets[2].Resolve(lane.Failed)
	tickets[3].Resolve(lane.Refused)
	require.True(t, tickets[3].Settle(lane.Parked))
	require.EqualValues(t, 10, b.Used())
	tickets[4].Resolve(lane.Confirmed)
	tickets[5].Resolve(lane.Confirmed)
	require.Zero(t, b.Used())
}

func TestWithoutABudgetThereIsNoLimitInBytes(t *testing.T) {
	var none *lane.Budget
	part := none.Part(10)
	require.Nil(t, part)
	part.Remove()
	l := laneOf(part)
	var first, second lane.Ticket
	require.True(t, l.Issue(&first, 1<<60))
	require.True(t, l.Issue(&second, 1<<60))
	giveBack(l, []*lane.Ticket{&first, &second}, 2)
	require.Zero(t, part.Used())
	require.Zero(t, l.State().InFlight)
}

func TestABudgetIsSharedByManyAtOnce(t *testing.T) {
	const total, lanes, largest = 10_000, 8, 100
	process := lane.NewBudget(total)
	route := process.Part(total / 2)
	deadline := time.After(time.Minute)
	var done sync.WaitGroup
	for range lanes {
		part := route.Part(0)
		done.Go(func() {
			defer part.Remove()
			l := laneOf(part)
			var held []*lane.Ticket
			for n := 0; n < 2000; {
				ticket := &lane.Ticket{}
				if l.Issue(ticket, 1+rand.Int64N(largest)) {
					held = append(held, ticket)
					n++
					continue
				}
				giveBack(l, held, 1)
				held = held[1:]
				select {
				case <-l.Signal():
				case <-deadline:
					t.Error("nobody told the lane that there is room")
					return
				}
				if used := route.Used(); used > total/2+lanes*largest {
					t.Errorf("%d bytes are taken", used)
				}
			}
			l.Close()
		})
	}
	done.Wait()
	require.Zero(t, process.Used())
	require.Zero(t, process.Waiting())
}
