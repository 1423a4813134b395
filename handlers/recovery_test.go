package handlers_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

func TestAFullDestinationHoldsTheLaneAsOneAndOpensItAtOnce(t *testing.T) {
	r := newRoute(t)
	var full atomic.Bool
	full.Store(true)
	r.to.OnPublish(func(string, *record.Record, int) memory.Verdict {
		if full.Load() {
			return memory.Refuse(handlers.Full(errors.New("no room")))
		}
		return memory.Confirm()
	})
	r.produce(0, 0, 200)
	s := r.subscriber()
	stop := r.runWith(s, r.relay().Handle)
	eventually(t, func() bool { return r.arrive.Meter.Refused.Load() >= 200 })
	state := s.Lanes()["0"]
	require.True(t, state.Probing, "one message at a time asks for room")
	require.False(t, state.Held, "no message is held for its own sake")
	full.Store(false)
	r.committed(0, 200)
	stop()
	require.Equal(t, numbers(200), r.arrivals("0"))
}

func TestAfterAnOutageOfTheChainEverythingComesAgainTogether(t *testing.T) {
	r := newRoute(t)
	r.source.Backoff = lane.Backoff{Initial: 300 * time.Millisecond, Max: 300 * time.Millisecond}
	relay := r.relay()
	var failures atomic.Int64
	r.produce(0, 0, 200)
	began := time.Now()
	stop := r.run(func(msg *message.Message) error {
		if failures.Add(1) <= 200 {
			return handlers.Refused(errors.New("the look-up service is away"))
		}
		return relay.Handle(msg)
	})
	r.committed(0, 200)
	require.Less(t, time.Since(began), 10*time.Second, "a pause for each of the 200 messages takes half a minute at least")
	stop()
	require.Equal(t, numbers(200), r.arrivals("0"))
	require.EqualValues(t, 200, r.source.Meter.Nacked.Load())
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
