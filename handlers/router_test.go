package handlers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

// run starts a Watermill router that hands the route's messages to handle, and returns what stops it cleanly.
func (r *route) run(handle message.NoPublishHandlerFunc) (stop func()) {
	r.Helper()
	return r.runWith(r.subscriber(), handle)
}

func (r *route) runWith(s *handlers.Subscriber, handle message.NoPublishHandlerFunc) (stop func()) {
	r.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	require.NoError(r, err)
	router.AddConsumerHandler("r", r.source.Topic, s, handle)
	ended := start(func() error { return router.Run(context.Background()) })
	done(r, router.Running())
	return func() {
		r.Helper()
		require.NoError(r, done(r, start(s.Close)))
		require.NoError(r, done(r, start(router.Close)))
		require.NoError(r, done(r, ended))
	}
}

// judge fails messages at random, from a seed.
func judge(seed uint64, refusals bool) func(string, *record.Record, int) memory.Verdict {
	rnd := rand.New(rand.NewPCG(seed, 0)) // One publisher, so one goroutine.
	return func(string, *record.Record, int) memory.Verdict {
		switch rnd.IntN(400) {
		case 0:
			return memory.Lose(true)
		case 1:
			return memory.Lose(false)
		case 2:
			if refusals {
				return memory.Refuse(handlers.Refused(errors.New("not now")))
			}
		case 3:
			if refusals {
				return memory.Refuse(handlers.Full(errors.New("full")))
			}
		}
		return memory.Confirm()
	}
}

func TestARouterInBetweenLosesAndReordersNothing(t *testing.T) {
	const lanes = 4
	each := 5000
	if testing.Short() {
		each = 1000
	}
	for name, refusals := range map[string]bool{"failures on the way": false, "refusals too": true} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := newRoute(t)
			r.options.Lanes = lanes
			for lane := range lanes {
				r.produce(lane, 0, each)
			}
			r.to.OnPublish(judge(seed, refusals))
			r.from.FailCommits(2, nil)
			stop := r.run(r.relay().Handle)
			for lane := range lanes {
				r.committed(lane, each)
			}
			stop()
			require.EqualValues(t, lanes*each, r.source.Meter.Committed.Load())
			require.EqualValues(t, lanes*each, r.source.Meter.Fetched.Load())
			require.EqualValues(t, 2, r.source.Meter.CommitFails.Load())
			require.Positive(t, r.arrive.Meter.Failed.Load(), "the faults did not happen")
			if !refusals {
				require.Zero(t, r.source.Meter.Nacked.Load(), "a failure on the way was unwound through the chain")
			}
			for lane := range lanes {
				got := firsts(r.arrivals(strconv.Itoa(lane)))
				if refusals {
					require.ElementsMatch(t, span(0, each), got)
				} else {
					require.Equal(t, span(0, each), got)
				}
			}
		})
	}
}

func TestAHeldLaneDoesNotHoldAnother(t *testing.T) {
	r := newRoute(t)
	r.source.Window = 16
	r.options.Lanes = 2
	r.produce(0, 0, 100)
	r.produce(1, 0, 2000)
	r.to.OnPublish(func(_ string, got *record.Record, _ int) memory.Verdict {
		if got.Source.Lane == "0" && string(got.Value) == "0" {
			return memory.Refuse(handlers.Full(errors.New("full")))
		}
		return memory.Confirm()
	})
	stop := r.run(r.relay().Handle)
	r.committed(1, 2000)
	require.Zero(t, r.position(0))
	r.to.OnPublish(nil)
	r.committed(0, 100)
	stop()
	require.Equal(t, span(0, 2000), r.arrivals("1"))
}

func TestAStrictLaneHasOneMessageOnTheWire(t *testing.T) {
	r := newRoute(t)
	r.source.Strict = true
	r.produce(0, 0, 300)
	attempts := 0
	r.to.OnPublish(func(_ string, got *record.Record, attempt int) memory.Verdict {
		attempts++
		if attempt == 1 && attempts%10 == 0 {
			return memory.Refuse(handlers.Refused(errors.New("not now")))
		}
		return memory.Confirm()
	})
	stop := r.run(r.relay().Handle)
	r.committed(0, 300)
	stop()
	require.Equal(t, span(0, 300), r.arrivals("0"), "even refused messages arrive in order")
	require.Greater(t, attempts, 300)
}
