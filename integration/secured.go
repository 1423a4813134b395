package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/mqferry/mqferry/integration/brokers"
)

// validateTimeout bounds one run of mqferry validate.
const validateTimeout = time.Minute

// guest is the user whom some of a RabbitMQ's messages name as their sender.
const guest = "guest"

// Secured is a broker that demands TLS and a login, with the test's own way in whatever certificate it shows.
type Secured struct {
	*brokers.Broker
	// Kind is what a config file calls it.
	Kind string

	demands brokers.Security
	inside  string            // Kafka's listener for itself, which demands nothing.
	users   map[string]string // What a Redis forgets.
	queues  []*RabbitMQ
	streams []*Redis
}

// NewSecured starts a "kafka", "rabbitmq" or "redis" for this test alone. It needs certificates and a user.
func NewSecured(t testing.TB, kind string, demands brokers.Security) *Secured {
	t.Helper()
	start := map[string]func(testing.TB, brokers.Security, ...string) *brokers.Broker{
		"kafka": brokers.KafkaSecured, "rabbitmq": brokers.RabbitMQSecured, "redis": brokers.RedisSecured,
	}[kind]
	s := &Secured{Broker: start(t, demands), Kind: kind, demands: demands, users: map[string]string{}}
	switch kind {
	case "kafka":
		s.findInside(t)
	case "rabbitmq":
		s.SetPassword(t, guest, guest)
	}
	return s
}

// Demand starts the broker again with other demands: another certificate, another password. Its other users keep theirs.
func (s *Secured) Demand(t testing.TB, demands brokers.Security) {
	t.Helper()
	s.demands = demands
	s.Secure(t, demands)
	if s.Kind == "redis" {
		for name, password := range s.users {
			s.SetPassword(t, name, password)
		}
	}
	for _, q := range s.queues {
		s.enter(t, q)
	}
	for _, r := range s.streams { // Its client would try its old connections first, and not again.
		_ = r.client.Close()
		r.client = s.newRedis()
	}
}

// SetPassword makes a user who may do all, or gives it another password, while the broker runs. With Kafka it logs in by SCRAM-SHA-256 only.
func (s *Secured) SetPassword(t testing.TB, name, password string) {
	t.Helper()
	_, known := s.users[name]
	s.users[name] = password
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	switch s.Kind {
	case "kafka":
		client := s.newClient(t)
		defer client.Close()
		user := kadm.UpsertSCRAM{User: name, Password: password, Mechanism: kadm.ScramSha256, Iterations: 4096}
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{user})
		require.NoError(t, err)
		require.NoError(t, altered.Error())
	case "rabbitmq":
		if known {
			s.Ctl(t, "change_password", name, password)
			return
		}
		s.Ctl(t, "add_user", name, password)
		s.Ctl(t, "set_permissions", name, ".*", ".*", ".*")
	case "redis":
		client := s.newRedis()
		defer client.Close()
		require.NoError(t, client.Do(ctx, "ACL", "SETUSER", name, "reset", "on", ">"+password, "~*", "&*", "+@all").Err())
	}
}

// End makes a new topic on the broker, queue or stream. The ferry reaches it by whatever the test's config file says.
func (s *Secured) End(t testing.TB, site string) End {
	t.Helper()
	switch name := uniqueName("orders"); s.Kind {
	case "kafka":
		client := s.newClient(t)
		t.Cleanup(client.Close)
		k := &Kafka{site: site, topic: name, address: s.inside, partitions: 1, size: payloadSize, client: client, admin: kadm.NewClient(client)}
		_, err := k.admin.CreateTopic(t.Context(), 1, 1, nil, k.topic)
		require.NoError(t, err)
		return k
	case "rabbitmq":
		q := &RabbitMQ{site: site, queue: name, exchange: name + "-events", arguments: amqp.Table{}, size: payloadSize, test: t, broker: s.Broker}
		s.queues = append(s.queues, q)
		s.enter(t, q)
		t.Cleanup(func() { _ = q.connection.CloseDeadline(time.Now().Add(time.Second)) })
		q.MakeQueue(t)
		return q
	default:
		r := &Redis{site: site, stream: name, size: payloadSize, client: s.newRedis()}
		s.streams = append(s.streams, r)
		t.Cleanup(func() { _ = r.client.Close() })
		return r
	}
}

// tls shows the test's certificate and takes any: what the broker shows is for the ferry to judge.
func (s *Secured) tls() *tls.Config {
	config := s.demands.Certificates.ClientConfig()
	config.InsecureSkipVerify = true
	return config
}

// enter gives the queue a connection, which it would make itself with nothing but a URL.
func (s *Secured) enter(t testing.TB, q *RabbitMQ) {
	t.Helper()
	connection, err := amqp.DialConfig("amqps://"+s.Address()+"/", amqp.Config{
		SASL:      []amqp.Authentication{&amqp.PlainAuth{Username: guest, Password: guest}},
		Heartbeat: time.Minute, Dial: amqp.DefaultDial(requestTimeout), TLSClientConfig: s.tls(),
	})
	require.NoError(t, err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.connection = connection
}

// newRedis makes a client until the next Demand.
func (s *Secured) newRedis() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.Address(), TLSConfig: s.tls(), Username: s.demands.User.Name, Password: s.demands.User.Password,
		MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 30 * time.Second,
	})
}

// newClient makes a client of Kafka's own listener.
func (s *Secured) newClient(t testing.TB) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.inside), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	require.NoError(t, err)
	return client
}

// findInside asks a Kafka where it listens for itself.
func (s *Secured) findInside(t testing.TB) {
	t.Helper()
	user := plain.Auth{User: s.demands.User.Name, Pass: s.demands.User.Password}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Address()), kgo.DialTLSConfig(s.tls()), kgo.SASL(user.AsMechanism()), kgo.DisableClientMetrics())
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answers, err := kadm.NewClient(client).DescribeBrokerConfigs(ctx, 1)
	require.NoError(t, err)
	for _, answer := range answers {
		for _, c := range answer.Configs {
			if _, after, found := strings.Cut(c.MaybeValue(), "INTERNAL://"); found && c.Key == "listeners" {
				s.inside, _, _ = strings.Cut(after, ",")
			}
		}
	}
	require.NotEmpty(t, s.inside)
}

// RunAtDebug is Run with a log in JSON that says all that there is to say.
func RunAtDebug(t testing.TB, config string) *Ferry {
	t.Helper()
	return Run(t, config, "--log-level", "debug", "--log-format", "json")
}

// Page is the text of a page of the program, such as "/metrics".
func (f *Ferry) Page(t testing.TB, path string) string {
	t.Helper()
	_, body, err := f.get(path)
	require.NoError(t, err)
	return body
}

// Dump lets the program die as it does after a panic, with all that it was doing in its log.
func (f *Ferry) Dump(t testing.TB) {
	t.Helper()
	require.NoError(t, f.process.End(syscall.SIGQUIT, 10*time.Second))
}

// Validate runs "mqferry validate" with the text of a config file and further arguments, and gives its exit code and all that it wrote.
func Validate(t testing.TB, config string, arguments ...string) (code int, output string) {
	t.Helper()
	program, err := shared.path()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "mqferry.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), validateTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, append([]string{"validate", "-c", file}, arguments...)...)
	text, err := command.CombinedOutput()
	require.NoError(t, ctx.Err(), "it does not end:\n%s", text)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err, fmt.Sprint(arguments))
	}
	return command.ProcessState.ExitCode(), string(text)
}
