package rabbitmq_test

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestInspectTellsWhatIsThereAndMakesNothing(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	conn := open(t, w.url, nil)
	defer func() { require.NoError(t, conn.Close()) }()
	_, from, to := rabbitmq.DefaultConfig()
	source, destination := handlers.Source{Topic: w.out, Group: group}, handlers.Destination{Topic: w.out}
	inspect := func(s rabbitmq.SourceConfig, d rabbitmq.DestinationConfig) (string, error, string, error) {
		a, errA := conn.InspectSource(t.Context(), source, s)
		b, errB := conn.InspectDestination(t.Context(), destination, d)
		return a, errA, b, errB
	}

	_, missing, text, err := inspect(from, to)
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(missing))
	require.ErrorContains(t, missing, "never made")
	require.NoError(t, err)
	require.Contains(t, text, "would be created, durable")
	to.Create = false
	_, err = conn.InspectDestination(t.Context(), destination, to)
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))

	to.Exchange, from.Exchange = w.out+"-exchange", w.out+"-exchange"
	_, missing, _, err = inspect(from, to)
	require.ErrorContains(t, missing, "exchange")
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
	to.Create = true
	_, _, text, err = inspect(from, to)
	require.NoError(t, err)
	require.Contains(t, text, "would be created, topic and without bindings")
	require.Equal(t, -1, w.count(w.out), "a queue was made")

	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ch.ExchangeDeclare(to.Exchange, "topic", true, false, false, false, nil))
		require.NoError(t, ch.Publish("", w.out, true, false, amqp.Publishing{Body: []byte("1")}))
	})
	w.eventually(func() bool { return w.count(w.out) == 1 }, "the message does not arrive")
	from.RoutingKey = []string{"a.#", "b"}
	first, err, second, errB := inspect(from, to)
	require.NoError(t, err)
	require.NoError(t, errB)
	require.Contains(t, first, "1 messages, 0 consumers, bound to exchange")
	require.Contains(t, first, "a.#, b")
	require.Contains(t, second, "exchange")
	require.Equal(t, 1, w.count(w.out), "a message was consumed")
}

func TestInspectEndsWithItsContext(t *testing.T) {
	b := brokers.RabbitMQOwn(t)
	w := newWorld(t, b.URL())
	conn := open(t, w.url, nil)
	b.Pause(t)
	defer b.Resume(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	w.within("inspect", func() {
		_, err := conn.InspectDestination(ctx, handlers.Destination{Topic: w.out}, w.own)
		require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	})
}
