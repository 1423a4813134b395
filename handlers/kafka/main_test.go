package kafka_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokers.Suite(m),
		goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")) // The stock package leaves it running.
}
