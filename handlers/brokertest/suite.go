// Package brokertest is the conformance suite that every broker passes. A broker's own test calls [Run] with a way to
// connect and with what it promises:
//
//	brokertest.Run(t, brokertest.Suite{Open: open, Source: source, Destination: destination, Promises: brokertest.Promises{Keys: true}})
//
// The suite uses nothing but the connection's own publishers and subscribers, and the memory broker at the other end of the relay.
package brokertest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers"
)

// Suite is a broker to be tested.
type Suite struct {
	// Open connects to the broker, to the same one each time. The suite closes what it returns.
	Open func(t *testing.T) handlers.Conn
	// Source and Destination are the options of every route's ends.
	Source, Destination handlers.Options
	// Topic gives a topic that is new; nil means that a new name suffices, and that the publisher makes the topic.
	Topic func(t *testing.T) string
	// Promises are what the broker keeps.
	Promises Promises
	// Patience is how long the suite waits for what should come; zero means 30 s.
	Patience time.Duration
	// Background lists goroutines of the test's own that may come and go while the suite runs.
	Background []goleak.Option
}

// Promises are what of a record a broker keeps, and what can be done to it.
type Promises struct {
	Keys        bool          // Keys; an empty one is not none.
	Nulls       bool          // Null apart from empty, in values.
	HeaderOrder bool          // Headers in order, with repeats.
	HeaderNulls bool          // Null apart from empty, in headers.
	Time        time.Duration // The resolution of times; zero means that they are not kept.
	Lanes       int           // How many lanes a new topic has, among which keys are spread; zero means one.
	// Outage makes the broker unreachable for all open connections and new ones, without losing what it has confirmed, until
	// the returned function is called. Nil skips the tests that need it.
	Outage func(t *testing.T) (end func())
}

// Run tests the broker, one subtest for each promise.
func Run(t *testing.T, s Suite) {
	if s.Patience == 0 {
		s.Patience = 30 * time.Second
	}
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"messages arrive in order", order},
		{"a lane that is not acked does not stop another", isolation},
		{"records arrive as they were", fidelity},
		{"what middleware changed arrives changed", changes},
		{"a message without a record is carried", foreign},
		{"no more than the window is in flight", window},
		{"only the settled prefix is acked", prefix},
		{"a clean close of a plain subscriber repeats nothing", plainClose},
		{"clean stops of a route repeat nothing", routeStops},
		{"a nacked message comes again, the lowest first", nacks},
		{"a group of its own reads everything", groups},
		{"close may come twice and at any time", closing},
		{"a publish fails or waits while the broker is away", publishAway},
		{"close ends a publish that waits", closeAway},
		{"a subscriber is given up while the broker is away", abortAway},
		{"an outage loses and reorders nothing", outage},
	} {
		t.Run(test.name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			b := newBench(t, s)
			test.run(b)
			b.closeAll()
			b.noGoroutines(running)
		})
	}
}
