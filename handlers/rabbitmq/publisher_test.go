package rabbitmq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMessagesArriveInOrder(t *testing.T) {
	w := newWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.produce(0, 20000, 3)
	r := w.start()
	w.settled(20000)
	r.stop()
	require.Zero(t, w.requireOrder(w.arrived(w.out), 20000, 3), "a clean stop repeats nothing")
}
