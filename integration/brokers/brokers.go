package brokers

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// RequireVariable names the environment variable that, set to 1, turns the skip of a test without its broker into a failure.
const RequireVariable = "MQFERRY_TEST_REQUIRE_BROKERS"

// LongVariable names the environment variable that, set to 1, adds the tests that repeat others in one more form: on the other kinds of queue, with the stock clients.
const LongVariable = "MQFERRY_TEST_LONG"

// Long skips the test unless LongVariable is set to 1.
func Long(t testing.TB) {
	t.Helper()
	if Brief() {
		t.Skipf("set %s=1 to run it", LongVariable)
	}
}

// Brief reports whether a test is to leave out what repeats it in one more form: with -short, or unless LongVariable is set to 1.
func Brief() bool { return testing.Short() || os.Getenv(LongVariable) != "1" }

// Runner is what [testing.M] is to goleak and to this package: something that runs all tests and returns the exit code.
type Runner interface{ Run() int }

// Kafka returns the Kafka called name ("a" or "b") that all tests of this binary share: the one at the address in
// MQFERRY_TEST_KAFKA_<NAME>, or one that is started at the first call. It skips the test when there is neither. Topics
// stay from test to test: a test uses names of its own.
func Kafka(t testing.TB, name string) *Broker {
	t.Helper()
	return shared.broker(t, kafka{}, name)
}

// Redis returns the Redis called name ("a" or "b") that all tests of this binary share: the one at the address in
// MQFERRY_TEST_REDIS_<NAME>, or one that is started at the first call, with an append-only file. It skips the test when
// there is neither. Keys stay from test to test: a test uses names of its own.
func Redis(t testing.TB, name string) *Broker {
	t.Helper()
	return shared.broker(t, redis{}, name)
}

// RabbitMQ returns the RabbitMQ called name ("a" or "b") that all tests of this binary share: the one that
// MQFERRY_TEST_RABBITMQ_<NAME> names by an amqp:// URL or by host:port, or one that is started at the first call. It skips the
// test when there is neither. Queues and exchanges stay from test to test: a test uses names of its own.
func RabbitMQ(t testing.TB, name string) *Broker {
	t.Helper()
	return shared.broker(t, newRabbitMQ(), name)
}

// KafkaOwn starts a Kafka for this test alone and ends it with the test. Each setting is a line of server.properties, such as
// "message.max.bytes=2097152", and overrides the default. It takes some 5 seconds.
func KafkaOwn(t testing.TB, settings ...string) *Broker {
	t.Helper()
	return own(t, kafka{settings: settings})
}

// RedisOwn starts a Redis for this test alone and ends it with the test. The arguments are appended to the command line
// of redis-server, such as "--appendfsync", "always".
func RedisOwn(t testing.TB, arguments ...string) *Broker {
	t.Helper()
	return own(t, redis{arguments: arguments})
}

// RabbitMQOwn starts a RabbitMQ for this test alone and ends it with the test. Each setting is a line of rabbitmq.conf, such as
// "heartbeat = 1", and overrides the default. The management API and Shovel are on. It takes some 5 seconds.
func RabbitMQOwn(t testing.TB, settings ...string) *Broker {
	t.Helper()
	return own(t, newRabbitMQ(settings...))
}

// Main runs the tests, then stops every shared broker, waits until it is gone, and deletes its data. It returns the exit
// code for [os.Exit].
func Main(m Runner) int {
	// Tests with brokers wait most of the time. What the command line says comes later, and wins.
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	code := m.Run()
	shared.stop()
	return code
}

// Suite returns a Runner that does what Main does, for goleak.VerifyTestMain.
func Suite(m Runner) Runner { return suite{m} }

type suite struct{ Runner }

func (s suite) Run() int { return Main(s.Runner) }

// shared is the one variable of the package: tests of one binary have nothing else in common that could hold it.
var shared registry

// registry holds the brokers that tests share, by kind and name.
type registry struct {
	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	once   sync.Once
	broker *Broker
	err    error
}

func (r *registry) broker(t testing.TB, s software, name string) *Broker {
	t.Helper()
	if name != "a" && name != "b" {
		t.Fatalf("there is no shared broker %q: use a or b", name)
	}
	e := r.entry(s.kind() + name)
	e.once.Do(func() { e.broker, e.err = givenOrStarted(s, name) })
	judge(t, s, e.err)
	return e.broker
}

func (r *registry) entry(key string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[string]*entry{}
	}
	if r.entries[key] == nil {
		r.entries[key] = &entry{}
	}
	return r.entries[key]
}

func (r *registry) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ends sync.WaitGroup
	for _, e := range r.entries {
		if e.broker != nil {
			ends.Go(e.broker.remove)
		}
	}
	ends.Wait()
	r.entries = nil
}

func givenOrStarted(s software, name string) (*Broker, error) {
	if address := os.Getenv(variable(s, name)); address != "" {
		return given(s, address)
	}
	return newBroker(s)
}

func variable(s software, name string) string {
	return "MQFERRY_TEST_" + strings.ToUpper(s.kind()+"_"+name)
}

func own(t testing.TB, s software) *Broker {
	t.Helper()
	b, err := newBroker(s)
	judge(t, s, err)
	t.Cleanup(b.remove)
	return b
}

// errMissing is wrapped by the errors of a broker that is not installed, as against one that does not work.
var errMissing = errors.New("not installed")

func judge(t testing.TB, s software, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, errMissing) && os.Getenv(RequireVariable) != "1" {
		t.Skipf("%v: run integration/brokers/install.sh, or set %s and %s to addresses",
			err, variable(s, "a"), variable(s, "b"))
	}
	t.Fatal(err)
}
