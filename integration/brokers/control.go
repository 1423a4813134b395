package brokers

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// controlTimeout bounds one run of rabbitmqctl, which takes about a second.
const controlTimeout = 30 * time.Second

// URL is what an application is given to connect to a RabbitMQ or a Redis, with user and password where one is demanded, such
// as amqp://guest:guest@127.0.0.1:20001/ or rediss://127.0.0.1:20002. It is empty for a Kafka, which has no URL.
func (b *Broker) URL() string { return b.URLAt(b.address) }

// URLAt is URL with another host:port, such as that of a link.
func (b *Broker) URLAt(address string) string {
	if s, is := b.current().(interface{ url(string) string }); is {
		return s.url(address)
	}
	return ""
}

// ManagementURL is where a RabbitMQ serves its management API, with user and password, such as
// http://guest:guest@127.0.0.1:20002: port 15672 for one that was given by its address. It is empty for a Kafka and a Redis.
func (b *Broker) ManagementURL() string {
	if r, is := b.current().(rabbitmq); is {
		return r.managementURL(b.address, b.ports)
	}
	return ""
}

// Ctl runs rabbitmqctl against a RabbitMQ that this package started and returns what it printed, without headings. The test
// fails when the command does, or when it takes longer than 30 seconds.
func (b *Broker) Ctl(t testing.TB, arguments ...string) string {
	t.Helper()
	b.needStarted(t)
	r, is := b.current().(rabbitmq)
	if !is {
		t.Fatalf("rabbitmqctl is for a RabbitMQ, not for a %s", b.current().kind())
	}
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	program, all := r.control(b.dir, b.ports, arguments...)
	command := exec.CommandContext(ctx, program, all...)
	command.WaitDelay = time.Second
	var output, complaint bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		t.Fatalf("rabbitmqctl %s: %v\n%s%s", strings.Join(arguments, " "), err, &output, &complaint)
	}
	return output.String()
}
