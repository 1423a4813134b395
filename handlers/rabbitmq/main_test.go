package rabbitmq_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokers.Suite(m)) }

// lengthy leaves a test out of a short run.
func lengthy(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long")
	}
}
