package redisstream_test

import (
	"testing"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/brokertest"
	"github.com/mqferry/mqferry/handlers/redisstream"
)

func TestConfigFiles(t *testing.T) {
	brokertest.ConfigFiles(t, handlers.NewBroker(redisstream.DefaultConfig, redisstream.Open))
}
