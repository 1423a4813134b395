package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
)

func TestAnErrorsClassDecidesWhatBecomesOfAMessage(t *testing.T) {
	cause := errors.New("cause")
	for _, row := range []struct {
		name     string
		err      error
		returned bool // To the middleware, otherwise it is tried again by the relay.
		failed   int64
		refused  int64
	}{
		{"unavailable is tried again below the chain", handlers.Unavailable(cause), false, 1, 0},
		{"an error without a class came from a broker", cause, false, 1, 0},
		{"cancelled by a publisher is a failure on the way", handlers.Cancelled(cause), false, 1, 0},
		{"a cancelled context too", context.Canceled, false, 1, 0},
		{"full holds", handlers.Full(cause), false, 0, 1},
		{"unroutable holds", handlers.Unroutable(cause), false, 0, 1},
		{"refused goes up the chain", handlers.Refused(cause), true, 0, 1},
		{"permanent goes up the chain", handlers.Permanent(cause), true, 0, 1},
		{"a class inside another error counts", fmt.Errorf("more: %w", handlers.Permanent(cause)), true, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRoute(t)
			var attempts atomic.Int64
			r.to.OnPublish(func(string, *record.Record, int) memory.Verdict {
				if attempts.Add(1) == 1 {
					return memory.Refuse(row.err)
				}
				return memory.Confirm()
			})
			r.produce(0, 0, 1)
			msg := r.receive(r.subscribe(r.subscriber()), 1)[0]
			err := done(t, start(func() error { return r.relay().Handle(msg) }))
			require.Equal(t, row.failed, r.arrive.Meter.Failed.Load())
			require.Equal(t, row.refused, r.arrive.Meter.Refused.Load())
			if row.returned {
				require.ErrorIs(t, err, cause)
				require.ErrorContains(t, err, "publish to b/out: ")
				require.Equal(t, handlers.ClassOf(row.err), handlers.ClassOf(err))
				require.EqualValues(t, 1, attempts.Load())
				require.Equal(t, lane.Unsettled, handlers.Ticket(msg).Outcome())
				require.Zero(t, r.position(0))
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 2, attempts.Load())
			require.Equal(t, lane.Confirmed, handlers.Ticket(msg).Outcome())
			up, _, _ := r.arrive.Health.State()
			require.True(t, up)
			r.committed(0, 1)
		})
	}
}

func TestARefusedMessageHoldsItsSuccessorsUntilItIsSettled(t *testing.T) {
	r := newRoute(t)
	refusal := handlers.Permanent(errors.New("no"))
	r.to.OnPublish(func(_ string, got *record.Record, _ int) memory.Verdict {
		if string(got.Value) == "0" {
			return memory.Refuse(refusal)
		}
		return memory.Confirm()
	})
	r.produce(0, 0, 2)
	relay := r.relay()
	got := r.receive(r.subscribe(r.subscriber()), 2)
	require.ErrorIs(t, done(t, start(func() error { return relay.Handle(got[0]) })), refusal)
	second := start(func() error { return relay.Handle(got[1]) })
	select {
	case <-second:
		require.FailNow(t, "it overtook the refused message")
	case <-patienceOf(50):
	}
	require.True(t, handlers.Ticket(got[0]).Settle(lane.Parked))
	require.NoError(t, done(t, second))
	r.committed(0, 2)
	require.Equal(t, []int{1}, r.arrivals("0"))
}

func TestAMessageThatIsSettledAlreadyIsNotSent(t *testing.T) {
	r := newRoute(t)
	r.produce(0, 0, 1)
	msg := r.receive(r.subscribe(r.subscriber()), 1)[0]
	require.True(t, handlers.Ticket(msg).Settle(lane.Dropped))
	require.NoError(t, r.relay().Handle(msg))
	require.Zero(t, r.to.Count("out"))
	r.committed(0, 1)
}

func TestAMessageThatLostItsTicketIsAnErrorAndNotALoss(t *testing.T) {
	r := newRoute(t)
	r.produce(0, 0, 1)
	msg := r.receive(r.subscribe(r.subscriber()), 1)[0]
	relay := r.relay()
	err := relay.Handle(msg.Copy()) // Watermill's Copy drops the context.
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err))
	require.ErrorContains(t, err, "CopyWithContext")
	require.NoError(t, relay.Handle(msg.CopyWithContext()))
	require.Equal(t, 1, r.to.Count("out"))
	r.committed(0, 1)
}

func TestAPublisherSeesAContextThatNobodyCancels(t *testing.T) {
	r := newRoute(t)
	ctx, cancel := context.WithCancel(record.With(context.Background(), &record.Record{ID: "1"}))
	cancel()
	msg := message.NewMessage("1", nil)
	msg.SetContext(ctx)
	p := publisherFunc(func(m *message.Message) error {
		require.NotNil(t, record.From(m.Context()))
		return m.Context().Err()
	})
	require.NoError(t, handlers.NewRelay(r.arrive, p, false).Handle(msg))
	require.Equal(t, ctx, msg.Context(), "the chain has its own context back")
}

func TestAStockSubscriberIsServedWithoutTickets(t *testing.T) {
	r := newRoute(t)
	bus := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	defer func() { require.NoError(t, bus.Close()) }()
	for i := range 100 {
		require.NoError(t, bus.Publish("in", message.NewMessage(strconv.Itoa(i), []byte(strconv.Itoa(i)))))
	}
	messages, err := bus.Subscribe(t.Context(), "in")
	require.NoError(t, err)
	relay := handlers.NewRelay(r.arrive, r.publisher(), false)
	r.to.FailNext(1, handlers.Unavailable(errors.New("gone")))
	for range 100 {
		msg := r.receive(messages, 1)[0]
		require.NoError(t, relay.Handle(msg), "an outage is waited for, not nacked")
		msg.Ack()
	}
	require.ElementsMatch(t, span(0, 100), r.arrivals("0"))
}

func TestAMessageWithoutATicketIsGivenUpWhenItsSubscriberStops(t *testing.T) {
	r := newRoute(t)
	ctx, cancel := context.WithCancel(t.Context())
	msg := message.NewMessage("1", nil)
	msg.SetContext(ctx)
	tries := 0
	p := publisherFunc(func(*message.Message) error {
		if tries++; tries == 2 {
			cancel()
		}
		return handlers.Unavailable(errors.New("gone"))
	})
	err := handlers.NewRelay(r.arrive, p, false).Handle(msg)
	require.Equal(t, handlers.ClassCancelled, handlers.ClassOf(err))
	require.ErrorContains(t, err, "gone")
	require.Equal(t, 2, tries)
}

func TestAMessageWithoutATicketThatIsRefusedIsNotHeld(t *testing.T) {
	r := newRoute(t)
	p := publisherFunc(func(*message.Message) error { return handlers.Refused(errors.New("no")) })
	err := handlers.NewRelay(r.arrive, p, false).Handle(message.NewMessage("1", nil))
	require.Equal(t, handlers.ClassRefused, handlers.ClassOf(err))
}

func TestATopicWithPlaceholdersIsFilledForEachMessage(t *testing.T) {
	r := newRoute(t)
	template, err := record.ParseTemplate("{topic}.{header.country}")
	require.NoError(t, err)
	d := r.arrive
	d.Template = &template
	var topics []string
	relay := handlers.NewRelay(d, topicFunc(func(topic string) { topics = append(topics, topic) }), false)
	for _, country := range []string{"de", "fr"} {
		msg := message.NewMessage("1", nil)
		msg.SetContext(record.With(t.Context(), &record.Record{Source: record.Source{Topic: "orders"}}))
		msg.Metadata.Set("country", country) // By a middleware, say.
		require.NoError(t, relay.Handle(msg))
	}
	require.Equal(t, []string{"orders.de", "orders.fr"}, topics)

	template, err = record.ParseTemplate("{header.country}")
	require.NoError(t, err)
	err = relay.Handle(message.NewMessage("1", nil))
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err), "there is no topic without a name")
}

// topicFunc is a publisher that tells the topics.
type topicFunc func(topic string)

func (f topicFunc) Publish(topic string, _ ...*message.Message) error {
	f(topic)
	return nil
}

func (topicFunc) Close() error { return nil }

func TestAStockPublisherIsOneAtATimeInALaneAndInOrder(t *testing.T) {
	r := newRoute(t)
	for lane := range 2 {
		r.produce(lane, 0, 500)
	}
	var mu sync.Mutex
	busy, attempts := map[string]int{}, map[string]int{}
	arrived := map[string][]int{}
	overlaps := 0
	p := publisherFunc(func(msg *message.Message) error {
		from := record.From(msg.Context()).Source
		mu.Lock()
		defer mu.Unlock()
		busy[from.Lane]++
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		overlaps += busy[from.Lane] - 1
		busy[from.Lane]--
		at := from.Lane + "/" + from.Position
		if attempts[at]++; attempts[at] == 1 && len(from.Position)%2 == 0 {
			return errors.New("a stock publisher's error has no class")
		}
		n, err := strconv.Atoi(string(msg.Payload))
		arrived[from.Lane] = append(arrived[from.Lane], n)
		return err
	})
	relay := handlers.NewRelay(r.arrive, p, true)
	stop := r.run(relay.Handle)
	r.committed(0, 500)
	r.committed(1, 500)
	stop()
	require.Zero(t, overlaps)
	require.Equal(t, map[string][]int{"0": span(0, 500), "1": span(0, 500)}, arrived)
}

// publisherFunc is a publisher that knows nothing of turns.
type publisherFunc func(*message.Message) error

func (f publisherFunc) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := f(msg); err != nil {
			return err
		}
	}
	return nil
}

func (f publisherFunc) Close() error { return nil }
