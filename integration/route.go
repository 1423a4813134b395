package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/ledger"
)

// requestTimeout bounds one question to a broker, so that a broker that is down is not waited for until the test's end.
const requestTimeout = 10 * time.Second

// Route is a route with a ledger: what was sent at one end is compared with what arrived at the other.
type Route struct {
	// Name is the route's name in the config file.
	Name string
	// From and To are its ends.
	From, To End

	mu    sync.Mutex
	next  int
	books *ledger.Ledger
	early map[place]*record.Record
}

// earlyMessages of each lane are kept, to show what is wrong with one that arrives damaged.
const earlyMessages = 100

// place is what the books call a message.
type place struct {
	lane string
	seq  uint64
}

// NewRoute makes a route with a name of its own.
func NewRoute(from, to End) *Route {
	return &Route{Name: uniqueName("route"), From: from, To: to, books: ledger.New(), early: map[place]*record.Record{}}
}

// Config is the text of a config file for the routes. Settings are further lines, such as "shutdown_timeout: 5s".
func Config(settings string, routes ...*Route) string {
	sites := map[string]string{}
	var list strings.Builder
	for _, r := range routes {
		fromSite, fromBroker := r.From.Site()
		toSite, toBroker := r.To.Site()
		sites[fromSite], sites[toSite] = fromBroker, toBroker
		fmt.Fprintf(&list, "  - {name: %s, from: {datacenter: %s, topic: %s%s}, to: %s/%s}\n",
			r.Name, fromSite, r.From.Topic(), r.From.options(), toSite, r.To.Topic())
	}
	text := "datacenters:\n"
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		text += fmt.Sprintf("  %s: {%s}\n", name, sites[name])
	}
	return text + "routes:\n" + list.String() + settings + "\n"
}

// Group is the name under which the source keeps the route's position.
func (r *Route) Group() string { return "mqferry-" + r.Name }

// Sent is how many messages were sent so far.
func (r *Route) Sent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// Send produces the next n messages at the source, and waits until the broker has them.
func (r *Route) Send(t testing.TB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	require.NoError(t, r.send(ctx, n))
}

func (r *Route) send(ctx context.Context, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n > 0 {
		messages := make([]*message, min(n, 5*sendChunk))
		for i := range messages {
			messages[i] = r.From.make(r.next, r.Name, r.To)
			r.next++
		}
		if err := r.From.send(ctx, messages); err != nil {
			return err
		}
		for _, m := range messages {
			expected := r.From.expected(m, r.To)
			r.books.Produced(m.lane, m.seq, fingerprint(expected))
			if m.seq < earlyMessages {
				r.early[place{m.lane, m.seq}] = expected
			}
		}
		n -= len(messages)
	}
	return nil
}

// Load produces so many messages a second at the source, until the function that it returns is called or the test ends.
func (r *Route) Load(t testing.TB, perSecond int) (stop func()) {
	t.Helper()
	const perTick = 20
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(time.Second * perTick / time.Duration(perSecond))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ended <- nil
				return
			}
			// Never cancelled half-way: what was sent must be known.
			if err := r.send(context.WithoutCancel(ctx), perTick); err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(cancel)
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

// WaitAcked waits until the source has the ack for everything that was sent.
func (r *Route) WaitAcked(t testing.TB, within time.Duration) {
	t.Helper()
	Eventually(t, within, r.Missing)
}

// Missing says what the source has no ack for yet; it is empty when everything that is there is acked.
func (r *Route) Missing() string {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	text, err := r.From.unacked(ctx, r.Group())
	if err != nil {
		return err.Error()
	}
	return text
}

// WantUnacked wants something to be there at the source that has no ack yet: otherwise the test that goes on would show nothing.
func (r *Route) WantUnacked(t testing.TB) {
	t.Helper()
	require.NotEmpty(t, r.Missing(), "everything is acked already: the test has nothing left to show")
}

// Arrived is how many messages are at the destination now, duplicates included.
func (r *Route) Arrived(t testing.TB) int {
	t.Helper()
	n, err := r.arrived()
	require.NoError(t, err)
	return n
}

func (r *Route) arrived() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return r.To.count(ctx)
}

// WaitArrived waits until at least n messages are at the destination.
func (r *Route) WaitArrived(t testing.TB, n int, within time.Duration) {
	t.Helper()
	Eventually(t, within, func() string {
		found, err := r.arrived()
		if found >= n {
			return ""
		}
		return fmt.Sprintf("%d of %d messages have arrived in %s: %v", found, n, r.To.Topic(), err)
	})
}

// WantExactlyOnce reads the destination to its end and wants everything that was sent to be there, once, in the order of its lane, as it was.
func (r *Route) WantExactlyOnce(t testing.TB) {
	t.Helper()
	r.WantAtMost(t, 0)
}

// WantAtMost is WantExactlyOnce with so many duplicates allowed; first arrivals are in order all the same. It reports what it found.
func (r *Route) WantAtMost(t testing.TB, duplicates int) ledger.Report {
	t.Helper()
	report := r.Check(t)
	require.NoError(t, report.Err())
	require.Equal(t, r.Sent(), report.Produced)
	require.LessOrEqual(t, report.Duplicated, duplicates, "%s; %v", report, report.Findings)
	return report
}

// WantOneGap reads the destination to its end and wants to be missing, of all that was sent, at most one run of messages, all of them before the n-th:
// somebody threw them away, and with them nothing else. The rest is in order, with so many duplicates at most. It is for sources of one lane.
func (r *Route) WantOneGap(t testing.TB, n, duplicates int) {
	t.Helper()
	report := r.Check(t)
	require.Zero(t, report.OutOfOrder+report.Damaged+report.Unknown, "%s; %v", report, report.Findings)
	require.LessOrEqual(t, report.Duplicated, duplicates, "%s; %v", report, report.Findings)
	gaps := r.books.Gaps(r.From.make(0, r.Name, r.To).lane)
	require.LessOrEqual(t, len(gaps), 1, "%s", report)
	for _, gap := range gaps {
		require.Less(t, gap.Last, uint64(n), "what was sent after the loss is missing too")
	}
	t.Logf("%s; missing %v, before %d", report, gaps, n)
}

// Check reads the destination to its end, once, and gives the state of the books.
func (r *Route) Check(t testing.TB) ledger.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	homes := map[string]string{}
	err := r.To.read(ctx, r.From, func(arrived *record.Record) {
		lane, seq, err := placeOf(arrived)
		if err != nil {
			r.books.Stranger("unknown", err.Error())
			return
		}
		if home, known := homes[lane]; known && home != arrived.Source.Lane {
			t.Errorf("lane %q is in the partitions %s and %s, first with message %d", lane, home, arrived.Source.Lane, seq)
		}
		homes[lane] = arrived.Source.Lane
		r.books.Arrived(lane, seq, fingerprint(arrived))
		if sent := r.early[place{lane, seq}]; sent != nil && fingerprint(sent) != fingerprint(arrived) {
			t.Logf("damaged:\nexpected %s\narrived  %s", describe(sent), describe(arrived))
		}
	})
	require.NoError(t, err)
	return r.books.Check()
}
