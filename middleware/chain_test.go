package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// ticketed gives a message as a pipelined subscriber emits it.
func ticketed(t *testing.T) *message.Message {
	t.Helper()
	store := memory.New()
	store.Site("a").Produce("orders", 0, &record.Record{ID: "the-id", Value: []byte("x")})
	dc, err := store.Broker().DataCenter(config.Raw{})
	require.NoError(t, err)
	conn, err := dc.Open(context.Background(), handlers.Settings{DataCenter: "a"})
	require.NoError(t, err)
	subscriber, err := conn.Subscriber(handlers.Source{
		DataCenter: "a", Topic: "orders", Group: "g", Window: 8, Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}, memory.SourceConfig{})
	require.NoError(t, err)
	messages, err := subscriber.Subscribe(context.Background(), "orders")
	require.NoError(t, err)
	t.Cleanup(func() {
		subscriber.(*handlers.Subscriber).Abort()
		require.NoError(t, subscriber.Close())
	})
	select {
	case msg := <-messages:
		return msg
	case <-time.After(20 * time.Second):
		t.Fatal("no message came")
		return nil
	}
}

func returning(err error) message.HandlerFunc {
	return func(*message.Message) ([]*message.Message, error) { return nil, err }
}

func settling(o lane.Outcome, err error) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		handlers.Ticket(msg).Settle(o)
		return nil, err
	}
}

func TestAckForwardLetsOnlyASettledMessageBeAcked(t *testing.T) {
	failed := errors.New("failed")
	for _, test := range []struct {
		name  string
		chain message.HandlerFunc
		want  string
	}{
		{name: "a confirmed message is acked", chain: settling(lane.Confirmed, nil)},
		{name: "a message dropped on purpose is acked", chain: settling(lane.Dropped, nil)},
		{name: "a parked message is acked", chain: settling(lane.Parked, nil)},
		{name: "a settled message is acked whatever the chain says", chain: settling(lane.Confirmed, failed)},
		{name: "a failed message is not acked", chain: returning(failed), want: "failed"},
		{name: "a swallowed message is an error that names the route", chain: returning(nil), want: `route "orders": message the-id`},
	} {
		t.Run(test.name, func(t *testing.T) {
			handler := middleware.AckForward(middleware.Settings{Route: "orders"})(test.chain)
			produced, err := handler(ticketed(t))
			require.Empty(t, produced)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestAckForwardOfASwallowedMessageIsPermanent(t *testing.T) {
	handler := middleware.AckForward(middleware.Settings{Route: "orders"})(returning(nil))
	_, err := handler(ticketed(t))
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err))
}

func TestAckForwardTrustsTheChainWhereThereAreNoTickets(t *testing.T) {
	forward := middleware.AckForward(middleware.Settings{Route: "orders"})
	_, err := forward(returning(nil))(message.NewMessage("1", nil))
	require.NoError(t, err)
	_, err = forward(returning(errors.New("failed")))(message.NewMessage("1", nil))
	require.EqualError(t, err, "failed")
}

func TestRecovererMakesAPanicAShortErrorAndLogsItsStack(t *testing.T) {
	var log strings.Builder
	recoverer := middleware.Recoverer(middleware.Settings{Route: "orders", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := recoverer(func(*message.Message) ([]*message.Message, error) { panic("ouch") })(message.NewMessage("the-id", nil))
	require.EqualError(t, err, `route "orders": a middleware panicked: ouch`)
	require.Equal(t, handlers.ClassRefused, handlers.ClassOf(err))
	require.Contains(t, log.String(), "the-id")
	require.Contains(t, log.String(), "chain_test.go", "the stack is in the log")
}

func TestRecovererLeavesResultsAlone(t *testing.T) {
	recoverer := middleware.Recoverer(middleware.Settings{})
	_, err := recoverer(returning(nil))(message.NewMessage("1", nil))
	require.NoError(t, err)
}

func TestAParkedMessageHasTheSameKeyAgainButNotThatOfAnotherAtItsPlace(t *testing.T) {
	r := record.Record{Time: time.UnixMilli(1), Source: record.Source{DataCenter: "a", Topic: "x", Lane: "0", Position: "7"}}
	parked := middleware.Parked(&r, "one", errors.New("no"))
	require.Equal(t, parked.Key, middleware.Parked(&r, "one", errors.New("no, again")).Key)
	require.NotEqual(t, parked.Key, middleware.Parked(&r, "two", errors.New("no")).Key)
	later := r
	later.Time = time.UnixMilli(2) // In a topic of the same name that was made again.
	require.NotEqual(t, parked.Key, middleware.Parked(&later, "one", errors.New("no")).Key)
	nowhere := record.Record{}
	require.NotEqual(t, middleware.Parked(&nowhere, "one", errors.New("no")).Key, middleware.Parked(&nowhere, "one", errors.New("no")).Key)
}
