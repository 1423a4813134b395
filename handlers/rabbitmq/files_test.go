package rabbitmq_test

import (
	"testing"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
)

func TestConfigFiles(t *testing.T) {
	brokertest.ConfigFiles(t, handlers.NewBroker(rabbitmq.DefaultConfig, rabbitmq.Open))
}
