package router

import (
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/redisstream"
)

// brokers is the table of brokers: a line for each.
func brokers() map[string]handlers.Broker {
	return map[string]handlers.Broker{
		"kafka":    handlers.NewBroker(kafka.DefaultConfig, kafka.Open),
		"rabbitmq": handlers.NewBroker(rabbitmq.DefaultConfig, rabbitmq.Open),
		"redis":    handlers.NewBroker(redisstream.DefaultConfig, redisstream.Open),
		"memory":   memory.New().Broker(),
	}
}
