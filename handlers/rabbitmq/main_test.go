package rabbitmq_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokers.Suite(m)) }
