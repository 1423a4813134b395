package integration

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/mqferry/mqferry/handlers/record"
)

// End is one end of a route: a topic on a real broker, as an application there sees it. NewKafka, NewRabbitMQ and NewRedis make one.
type End interface {
	// Site is the name of the data center, and its broker as a config file describes it.
	Site() (name, broker string)
	// Topic is the name of the topic.
	Topic() string
	// Lanes is how many lanes it has as a source.
	Lanes() int
	// Payloads sets the size of the payloads from now on, 1 KB otherwise.
	Payloads(size int)

	// options are further ones of the source, for its long form in a config file, such as ", lease: 1s".
	options() string
	// make makes the i-th message that a route to the given end is to carry.
	make(i int, route string, to End) *message
	// send produces the messages and fills in what only the broker knows: place, and time where it is the broker's.
	send(ctx context.Context, messages []*message) error
	// expected is how the message, sent here, is to arrive at the given end.
	expected(m *message, to End) *record.Record
	// count is how many messages are there.
	count(ctx context.Context) (int, error)
	// read gives every message that is there now, in order, for comparison with what the end that it came from expects. It may take them away.
	read(ctx context.Context, from End, each func(*record.Record)) error
	// unacked says what the group has not acked yet; it is empty when the group has acked all that is there now.
	unacked(ctx context.Context, group string) (string, error)
}

// uniqueName keeps a test's topic apart from those of other tests and other runs.
func uniqueName(prefix string) string {
	random := make([]byte, 4)
	_, _ = rand.Read(random)
	return fmt.Sprintf("%s-%s", prefix, hex.EncodeToString(random))
}
