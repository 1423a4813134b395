package lane_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/mqferry/mqferry/handlers/lane"
)

const benchWindow = 4096

// BenchmarkMessage is the whole life of a message in its lane, on a goroutine of its own: issue, enter, enqueue, confirm, commit.
func BenchmarkMessage(b *testing.B) {
	for _, lanes := range []int{1, 4} {
		b.Run(strconv.Itoa(lanes)+" lanes", func(b *testing.B) {
			b.ReportAllocs()
			budget := lane.NewBudget(1 << 30)
			var running sync.WaitGroup
			for i := range lanes {
				n := (b.N + i) / lanes
				l := lane.New(lane.Settings{Window: benchWindow, Budget: budget.Part(0)})
				running.Go(func() { carry(l, n) })
			}
			running.Wait()
		})
	}
}

// carry takes n messages through l.
func carry(l *lane.Lane, n int) {
	wire := make(chan *lane.Ticket, benchWindow)
	go func() {
		for t := range wire {
			t.Resolve(lane.Confirmed)
		}
	}()
	for issued := 0; l.Settled() < uint64(n); {
		t := &lane.Ticket{}
		if issued < n && l.Issue(t, 1024) {
			issued++
			go func() {
				if t.Enter() == nil && t.Enqueue(func() { wire <- t }) {
					t.Await()
				}
			}()
			continue
		}
		<-l.Signal()
		l.Committed(l.Settled())
	}
	close(wire)
}

// BenchmarkBreak is a failure on the way while a whole window waits behind it: it must not cost a window's worth of wake-ups.
func BenchmarkBreak(b *testing.B) {
	b.ReportAllocs()
	l := lane.New(lane.Settings{Window: benchWindow})
	tickets := make([]lane.Ticket, benchWindow)
	var waiting sync.WaitGroup
	for i := range tickets {
		l.Issue(&tickets[i], 1)
		if i > 0 {
			waiting.Go(func() { _ = tickets[i].Enter() })
		}
	}
	for b.Loop() {
		_ = tickets[0].Enter()
		tickets[0].Enqueue(func() {})
		tickets[0].Resolve(lane.Failed)
	}
	l.Close()
	waiting.Wait()
}
