package ledger_test

import (
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration/ledger"
)

// carry produces n messages in one lane and lets arrive what order says.
func carry(n uint64, order ...uint64) ledger.Report {
	l := ledger.New()
	for seq := range n {
		l.Produced("orders", seq, seq*31)
	}
	for _, seq := range order {
		l.Arrived("orders", seq, seq*31)
	}
	return l.Check()
}

func TestWhatArrivesWholeAndInOrderIsNoError(t *testing.T) {
	r := carry(3, 0, 1, 2)
	require.NoError(t, r.Err())
	require.Equal(t, ledger.Report{Produced: 3, Arrived: 3}, r)
	require.Equal(t, "3 produced, 3 delivered, 0 lost, 0 duplicated, 0 out of order", r.String())
}

func TestAnEmptyLedgerIsNoError(t *testing.T) {
	require.Equal(t, ledger.Report{}, ledger.New().Check())
}

func TestALostMessageIsNamedWithItsNeighbours(t *testing.T) {
	r := carry(4, 0, 2)
	require.Equal(t, 2, r.Lost)
	require.ErrorContains(t, r.Err(), "4 produced, 2 delivered, 2 lost")
	require.ErrorContains(t, r.Err(), `lost: lane "orders", message 1: the one before arrived, the one after arrived`)
	require.ErrorContains(t, r.Err(), `lost: lane "orders", message 3: the one before arrived, the one after was not produced`)
}

func TestARepeatedMessageIsCountedButIsNoError(t *testing.T) {
	r := carry(3, 0, 1, 0, 1, 2)
	require.NoError(t, r.Err())
	require.Equal(t, 2, r.Duplicated)
	require.Equal(t, 3, r.Arrived)
	require.Equal(t, 0, r.OutOfOrder, "a repeat overtakes nobody")
	require.Equal(t, ledger.Finding{Kind: ledger.Duplicated, Lane: "orders", Seq: 0, Detail: "again after 1"}, r.Findings[0])
}

func TestAFirstArrivalAfterALaterMessageIsOutOfOrder(t *testing.T) {
	r := carry(4, 0, 2, 1, 3)
	require.Equal(t, 1, r.OutOfOrder)
	require.ErrorContains(t, r.Err(), `out of order: lane "orders", message 1: for the first time after 2`)
	require.Equal(t, 2, carry(4, 0, 3, 1, 2).OutOfOrder, "both came after 3")
}

func TestLanesHaveAnOrderEach(t *testing.T) {
	l := ledger.New()
	l.Produced("a", 0, 1)
	l.Produced("b", 0, 1)
	l.Produced("b", 1, 1)
	l.Arrived("b", 0, 1)
	l.Arrived("b", 1, 1)
	l.Arrived("a", 0, 1)
	require.NoError(t, l.Check().Err())
	require.Equal(t, 3, l.Check().Arrived)
}

func TestAChangedMessageIsDamagedWhicheverSideIsEnteredFirst(t *testing.T) {
	l := ledger.New()
	l.Produced("a", 0, 0x1)
	l.Arrived("a", 0, 0x2)
	l.Arrived("a", 1, 0x3)
	l.Produced("a", 1, 0x4)
	r := l.Check()
	require.Equal(t, ledger.Report{Produced: 2, Arrived: 2, Damaged: 2, Findings: r.Findings}, r)
	require.ErrorContains(t, r.Err(), `message 0: fingerprint 0000000000000001 became 0000000000000002`)
}

func TestADamagedRepeatIsDamaged(t *testing.T) {
	l := ledger.New()
	l.Produced("a", 0, 1)
	l.Arrived("a", 0, 1)
	l.Arrived("a", 0, 2)
	require.Equal(t, 1, l.Check().Damaged)
}

func TestAMessageThatNobodyProducedIsUnknown(t *testing.T) {
	r := carry(1, 0, 7)
	require.Equal(t, 1, r.Unknown)
	require.ErrorContains(t, r.Err(), `unknown: lane "orders", message 7`)

	l := ledger.New()
	l.Stranger("a", "no header")
	require.Equal(t, 1, l.Check().Unknown)
	require.ErrorContains(t, l.Check().Err(), "no header")
}

func TestAMessageThatArrivesBeforeItIsEnteredAsProducedIsKnownInTheEnd(t *testing.T) {
	l := ledger.New()
	l.Arrived("a", 0, 5)
	require.Equal(t, 1, l.Check().Unknown)
	l.Produced("a", 0, 5)
	require.NoError(t, l.Check().Err())
}

func TestOnlyTheFirstFewOfAKindAreNamed(t *testing.T) {
	l := ledger.New()
	for lane := range 3 {
		for seq := range uint64(100) {
			l.Produced(strconv.Itoa(lane), seq, 0)
		}
	}
	r := l.Check()
	require.Equal(t, 300, r.Lost)
	require.Len(t, r.Findings, 5)
}

// More than all pages that keep their fingerprints, so that what is let go is met as well.
func TestALongLaneIsCountedRightAcrossPages(t *testing.T) {
	const n = 100_000
	l := ledger.New()
	for seq := range uint64(n) {
		l.Produced("a", seq, seq)
		if seq != 50_000 {
			l.Arrived("a", seq, seq)
		}
	}
	l.Arrived("a", 3, 3)
	l.Produced("a", 3, 3)
	r := l.Check()
	r.Findings = nil
	require.Equal(t, ledger.Report{Produced: n, Arrived: n - 1, Lost: 1, Duplicated: 1}, r)
}

func TestMemoryIsAboutABitAMessage(t *testing.T) {
	const n = 1_000_000
	l := ledger.New()
	before := heap()
	for seq := range uint64(n) {
		l.Produced("a", seq, seq)
		l.Arrived("a", seq, seq)
	}
	grown := heap() - before
	require.NoError(t, l.Check().Err())
	require.Less(t, grown, int64(1<<20), "8 MB would be a fingerprint for each")
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestManyMayWriteAtOnce(t *testing.T) {
	l := ledger.New()
	var writers sync.WaitGroup
	begin := make(chan struct{})
	for i := range 8 {
		lane := strconv.Itoa(i % 4)
		writers.Go(func() {
			<-begin
			for seq := range uint64(20_000) {
				if i < 4 {
					l.Produced(lane, seq, seq)
				} else {
					l.Arrived(lane, seq, seq)
				}
			}
		})
	}
	close(begin)
	writers.Wait()
	require.Equal(t, ledger.Report{Produced: 80_000, Arrived: 80_000}, l.Check())
}

func TestGapsAreTheRunsOfWhatIsMissing(t *testing.T) {
	l := ledger.New()
	for seq := range uint64(10_000) {
		l.Produced("a", seq, seq)
		if seq != 7 && (seq < 4000 || seq > 8500) {
			l.Arrived("a", seq, seq)
		}
	}
	require.Equal(t, []ledger.Gap{{First: 7, Last: 7}, {First: 4000, Last: 8500}}, l.Gaps("a"))
	require.Empty(t, l.Gaps("b"))
}

func BenchmarkProducedAndArrived(b *testing.B) {
	l := ledger.New()
	var seq uint64
	b.ReportAllocs()
	for b.Loop() {
		l.Produced("a", seq, seq)
		l.Arrived("a", seq, seq)
		seq++
	}
}
