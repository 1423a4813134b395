package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
)

// seconds is how long the tests here may wait: it takes seconds, not minutes.
const seconds = 20 * time.Second

// linked is a topic on a Kafka of the test's own, 50 ms away from the ferry.
func linked(t *testing.T, settings ...string) *integration.Kafka {
	t.Helper()
	broker := brokers.KafkaOwn(t)
	link := broker.Link(t)
	link.Delay(50 * time.Millisecond)
	return integration.NewKafka(t, "far", broker, partitions, settings...).Through(link.Address())
}

// The culprit is in the middle of 4,096 messages, the 525th of its partition.
const (
	beforeCulprit = 2002
	afterCulprit  = 1993
	behindCulprit = (afterCulprit - 1) / partitions // In its lane.
)

// sendCulprit sends 4,096 messages with one of 100 KB among them.
func sendCulprit(t *testing.T, route *integration.Route, from *integration.Kafka) {
	t.Helper()
	route.Send(t, beforeCulprit)
	from.Payloads(100_000)
	route.Send(t, 1)
	from.Payloads(1000)
	route.Send(t, afterCulprit)
}

func TestAMessageOverTheKnownLimitHoldsItsOwnLaneOnly(t *testing.T) {
	t.Parallel()
	from := integration.NewKafka(t, "near", brokers.Kafka(t, "a"), partitions)
	to := linked(t, "max.message.bytes=50000")
	route := integration.NewRoute(from, to)
	ferry := integration.Run(t, integration.Config("defaults: {poison: off}", route))
	ferry.WaitReady(t, time.Minute)
	route.Send(t, 100)
	route.WaitAcked(t, time.Minute)

	sendCulprit(t, route, from)
	arrived := 100 + beforeCulprit + afterCulprit - behindCulprit
	route.WaitArrived(t, arrived, seconds)
	ferry.WaitTrouble(t, route, seconds, "max.message.bytes=50000")
	require.Equal(t, arrived, route.Arrived(t), "how many arrived while the culprit is held")

	to.Set(t, "max.message.bytes", "1000000")
	route.WaitAcked(t, seconds)
	route.WantExactlyOnce(t)
	ferry.Stop(t, stopTime)
}

func TestAMessageThatTheBrokerRefusesIsFoundAmongItsBatch(t *testing.T) {
	t.Parallel()
	from := integration.NewKafka(t, "near", brokers.Kafka(t, "a"), partitions)
	to := linked(t, "max.message.bytes=1000000")
	route := integration.NewRoute(from, to)
	ferry := integration.Run(t, integration.Config("defaults: {poison: off}", route))
	ferry.WaitReady(t, time.Minute)
	route.Send(t, 100)
	route.WaitAcked(t, time.Minute)

	// Lowered while it runs, which nobody tells the program: the broker refuses a batch, and with it good messages.
	to.Set(t, "max.message.bytes", "50000")
	sendCulprit(t, route, from)
	route.WaitArrived(t, 100+beforeCulprit+afterCulprit-behindCulprit, seconds)
	ferry.WaitTrouble(t, route, seconds, "100")
	require.LessOrEqual(t, route.Arrived(t), 100+beforeCulprit+afterCulprit, "the culprit itself cannot have arrived")

	to.Set(t, "max.message.bytes", "1000000")
	route.WaitAcked(t, seconds)
	report := route.Check(t)
	require.Zero(t, report.Lost+report.Duplicated+report.Damaged+report.Unknown, "%s: %v", report, report.Findings)
	// What was on the wire behind the culprit when the broker refused it may be there before it; nobody else is late.
	require.LessOrEqual(t, report.OutOfOrder, 1, "%s: %v", report, report.Findings)
	ferry.Stop(t, stopTime)
}

func TestGoodMessagesUnderALimitSmallerThanABatchAllArrive(t *testing.T) {
	t.Parallel()
	from := integration.NewKafka(t, "near", brokers.Kafka(t, "a"), partitions)
	to := linked(t, "max.message.bytes=20000")
	route := integration.NewRoute(from, to)
	route.Send(t, 2000)
	ferry := integration.Run(t, integration.Config("", route))
	route.WaitArrived(t, 2000, seconds)
	route.WaitAcked(t, seconds)

	// Lowered again while it runs, which nobody tells the program.
	to.Set(t, "max.message.bytes", "5000")
	route.Send(t, 2000)
	route.WaitArrived(t, 4000, seconds)
	route.WaitAcked(t, seconds)
	route.WantExactlyOnce(t)
	ferry.Stop(t, stopTime)
}
