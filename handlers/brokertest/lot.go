package brokertest

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// Lot is a poison queue of a broker under test, and its test. The messages in it have numbers.
type Lot struct {
	*testing.T
	Conn        handlers.Conn
	Destination handlers.Destination
	Options     handlers.Options
}

// Park puts records into the queue as the chain does.
func (l *Lot) Park(records ...*record.Record) {
	l.Helper()
	p, err := l.Conn.Publisher(l.Destination, l.Options)
	require.NoError(l, err)
	messages := make([]*message.Message, len(records))
	for i, r := range records {
		messages[i] = r.Message(context.Background())
	}
	require.NoError(l, p.Publish(l.Destination.Topic, messages...))
	require.NoError(l, p.Close())
}

// Browse begins a look, which ends with the test at the latest.
func (l *Lot) Browse() handlers.Browsing {
	l.Helper()
	b, err := l.Conn.Browse(l.Context(), l.Destination, l.Options)
	require.NoError(l, err)
	l.Cleanup(func() { _ = b.Close() })
	return b
}

// All gives what a look gives.
func (l *Lot) All(b handlers.Browsing) []*record.Record {
	l.Helper()
	var all []*record.Record
	for {
		page, err := b.Next(l.Context(), 256)
		require.NoError(l, err)
		require.LessOrEqual(l, len(page), 256)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// List gives the numbers in the queue of a route.
func (l *Lot) List(route string) []int {
	l.Helper()
	b := l.Browse()
	all := Numbers(l.T, l.All(b), route)
	require.NoError(l, b.Close())
	return all
}

// Choose gives those of a route for whose numbers wanted is true.
func (l *Lot) Choose(records []*record.Record, route string, wanted func(int) bool) []*record.Record {
	l.Helper()
	var chosen []*record.Record
	for _, r := range records {
		n := Numbers(l.T, []*record.Record{r}, route)
		if len(n) == 1 && wanted(n[0]) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// Parked makes parked messages with the numbers from first up to, not including, end, as if they had been read at source one after the other.
func Parked(source record.Source, route string, first, end int) []*record.Record {
	var all []*record.Record
	for n := first; n < end; n++ {
		source.Position = strconv.Itoa(n)
		all = append(all, middleware.Parked(&record.Record{
			ID: "id-" + strconv.Itoa(n), Key: []byte("k"), Value: []byte(strconv.Itoa(n)), Source: source,
		}, route, errors.New("no")))
	}
	return all
}

// Numbers gives the numbers of the parked messages of a route.
func Numbers(t *testing.T, records []*record.Record, route string) []int {
	t.Helper()
	var all []int
	for _, r := range records {
		original, why, ok := middleware.Unparked(r)
		require.True(t, ok)
		if why[middleware.PoisonRoute] != route {
			continue
		}
		n, err := strconv.Atoi(string(original.Value))
		require.NoError(t, err)
		all = append(all, n)
	}
	return all
}

// Interval gives the numbers from first up to, not including, end for which wanted is true.
func Interval(first, end int, wanted func(int) bool) []int {
	var all []int
	for n := first; n < end; n++ {
		if wanted(n) {
			all = append(all, n)
		}
	}
	return all
}

// Every wants all numbers.
func Every(int) bool { return true }

// Odd wants the odd ones.
func Odd(n int) bool { return n%2 == 1 }

// Even wants the even ones.
func Even(n int) bool { return n%2 == 0 }
