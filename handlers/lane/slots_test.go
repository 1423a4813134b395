package lane_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/lane"
)

// issued gives n tickets of a lane.
func issued(t *testing.T, l *lane.Lane, n int) []*lane.Ticket {
	t.Helper()
	tickets := make([]*lane.Ticket, n)
	for i := range tickets {
		tickets[i] = &lane.Ticket{}
		require.True(t, l.Issue(tickets[i], 1))
	}
	return tickets
}

func TestSlotsAreGivenInTheOrderOfTheTickets(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			l := lane.New(lane.Settings{Window: 100, Concurrency: concurrency})
			tickets := issued(t, l, 50)
			var mu sync.Mutex
			var order []uint64
			inside, most := 0, 0
			for _, ticket := range slices.Backward(tickets) {
				go func() {
					if ticket.TakeSlot() != nil {
						return
					}
					mu.Lock()
					order = append(order, ticket.Number())
					inside++
					most = max(most, inside)
					mu.Unlock()
				}()
				synctest.Wait() // Each asks before the lower one does.
			}
			for i := range tickets {
				synctest.Wait()
				mu.Lock()
				require.Contains(t, order, uint64(i))
				require.LessOrEqual(t, len(order), i+concurrency)
				inside--
				mu.Unlock()
				tickets[i].FreeSlot()
			}
			require.Equal(t, concurrency, most)
		})
	}
}

func TestASlotIsTakenAgainBeforeThoseThatComeForTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lane.New(lane.Settings{Window: 10, Concurrency: 1})
		tickets := issued(t, l, 4)
		require.NoError(t, tickets[0].TakeSlot())
		tickets[0].FreeSlot()
		require.NoError(t, tickets[1].TakeSlot())
		got := make(chan uint64, 3)
		for _, i := range []int{2, 3, 0} {
			go func() {
				require.NoError(t, tickets[i].TakeSlot())
				got <- tickets[i].Number()
			}()
			synctest.Wait()
		}
		for _, want := range []uint64{0, 2, 3} {
			require.Empty(t, got)
			map[uint64]*lane.Ticket{0: tickets[1], 2: tickets[0], 3: tickets[2]}[want].FreeSlot()
			require.Equal(t, want, <-got)
			synctest.Wait()
		}
		tickets[3].FreeSlot()
		tickets[3].FreeSlot() // Twice is once.
		require.NoError(t, tickets[0].TakeSlot())
	})
}

func TestWaitingForASlotEndsWithTheLaneOrItsStop(t *testing.T) {
	for name, end := range map[string]func(*lane.Lane){"close": (*lane.Lane).Close, "stop": (*lane.Lane).Stop} {
		synctest.Test(t, func(t *testing.T) {
			l := lane.New(lane.Settings{Window: 10, Concurrency: 1})
			tickets := issued(t, l, 3)
			require.NoError(t, tickets[0].TakeSlot())
			ended := make(chan error, 2)
			for _, ticket := range tickets[1:] {
				go func() { ended <- ticket.TakeSlot() }()
			}
			synctest.Wait()
			require.Empty(t, ended)
			end(l)
			require.ErrorIs(t, <-ended, lane.ErrCancelled, name)
			require.ErrorIs(t, <-ended, lane.ErrCancelled, name)
		})
	}
}

func TestWithoutAConcurrencyThereIsASlotForEveryone(t *testing.T) {
	l := lane.New(lane.Settings{Window: 100})
	for _, ticket := range slices.Backward(issued(t, l, 100)) {
		require.NoError(t, ticket.TakeSlot())
	}
}

func TestATicketThatIsSettledWithoutASlotHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lane.New(lane.Settings{Window: 100, Concurrency: 1})
		tickets := issued(t, l, 2)
		got := make(chan error, 1)
		go func() { got <- tickets[1].TakeSlot() }()
		synctest.Wait()
		require.Empty(t, got)
		require.True(t, tickets[0].Settle(lane.Dropped))
		require.NoError(t, <-got)
	})
}
