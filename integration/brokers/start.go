package brokers

import (
	"fmt"
	"path/filepath"

	"github.com/mqferry/mqferry/integration/link"
)

// StartKafka starts a Kafka outside of a test. The settings are those of KafkaOwn; Remove ends it.
func StartKafka(settings ...string) (*Broker, error) { return newBroker(kafka{settings: settings}) }

// StartRedis starts a Redis outside of a test. The arguments are those of RedisOwn; Remove ends it.
func StartRedis(arguments ...string) (*Broker, error) { return newBroker(redis{arguments: arguments}) }

// StartRabbitMQ starts a RabbitMQ outside of a test. The settings are those of RabbitMQOwn; Remove ends it.
func StartRabbitMQ(settings ...string) (*Broker, error) { return newBroker(newRabbitMQ(settings...)) }

// Remove kills a broker that was started outside of a test, and deletes its data.
func (b *Broker) Remove() { b.remove() }

// NewLink is Link outside of a test: the caller closes it.
func (b *Broker) NewLink() (*link.Link, error) {
	l, err := link.New(address(b.ports.link), address(b.current().behindLink(b.ports)))
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", b.name(), err)
	}
	return l, nil
}

// KafkaProgram is the command line of a program out of Kafka's jars, such as MirrorMaker, by its class.
func KafkaProgram(class string, arguments ...string) (program string, all []string) {
	flags := []string{
		"-Xms256m", "-Xmx1g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(kafkaLibs(), "*"), class,
	}
	return "java", append(flags, arguments...)
}
