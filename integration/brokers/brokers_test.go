package brokers_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration/brokers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokers.Suite(m)) }

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func redisClient(t *testing.T, address string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialTimeout: 2 * time.Second})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func kafkaClient(t *testing.T, address string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation())...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func produce(t *testing.T, client *kgo.Client, topic, value string) {
	t.Helper()
	record := &kgo.Record{Topic: topic, Value: []byte(value)}
	require.NoError(t, client.ProduceSync(deadline(t, 30*time.Second), record).FirstErr())
}

func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func TestTwoRedisAreSharedAndApart(t *testing.T) {
	a, b := brokers.Redis(t, "a"), brokers.Redis(t, "b")
	require.Same(t, a, brokers.Redis(t, "a"))
	require.NotEqual(t, a.Address(), b.Address())
	ctx := deadline(t, 5*time.Second)
	require.NoError(t, redisClient(t, a.Address()).Set(ctx, "only in a", 1, 0).Err())
	require.ErrorIs(t, redisClient(t, b.Address()).Get(ctx, "only in a").Err(), redis.Nil)
}

func TestTwoKafkasAreSharedAndApart(t *testing.T) {
	a, b := brokers.Kafka(t, "a"), brokers.Kafka(t, "b")
	require.Same(t, a, brokers.Kafka(t, "a"))
	require.NotEqual(t, a.Address(), b.Address())
	produce(t, kafkaClient(t, a.Address()), "only-in-a", "x")
	topics, err := kadm.NewClient(kafkaClient(t, b.Address())).ListTopics(deadline(t, 5*time.Second))
	require.NoError(t, err)
	require.False(t, topics.Has("only-in-a"))
}

func TestARedisKeepsItsDataThroughStopAndKill(t *testing.T) {
	b := brokers.RedisOwn(t, "--appendfsync", "always")
	client := redisClient(t, b.Address())
	for i, end := range []func(testing.TB){b.Stop, b.Kill} {
		key := strconv.Itoa(i)
		require.NoError(t, client.Set(deadline(t, 5*time.Second), key, "kept", 0).Err())
		end(t)
		require.False(t, answers(b.Address()))
		b.Start(t)
		require.Equal(t, "kept", redisClient(t, b.Address()).Get(deadline(t, 5*time.Second), key).Val())
	}
}

func TestAKafkaKeepsItsDataThroughStopAndKill(t *testing.T) {
	b := brokers.KafkaOwn(t, "num.partitions=1")
	client := kafkaClient(t, b.Address())
	for i, end := range []func(testing.TB){b.Stop, b.Kill} {
		produce(t, client, "kept", strconv.Itoa(i))
		end(t)
		require.False(t, answers(b.Address()))
		b.Start(t)
	}
	consumer := kafkaClient(t, b.Address(), kgo.ConsumeTopics("kept"))
	var values []string
	for ctx := deadline(t, 30*time.Second); len(values) < 2; {
		fetched := consumer.PollFetches(ctx)
		require.NoError(t, fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	require.Equal(t, []string{"0", "1"}, values)
}

func TestAPausedBrokerKeepsConnectionsAndAnswersAfterResume(t *testing.T) {
	b := brokers.RedisOwn(t)
	conn, err := net.Dial("tcp", b.Address())
	require.NoError(t, err)
	defer conn.Close()
	b.Pause(t)
	_, err = conn.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	answer := make([]byte, len("+PONG\r\n"))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = conn.Read(answer)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	b.Resume(t)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = conn.Read(answer)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", string(answer))
}

func TestAPausedBrokerCanBeStopped(t *testing.T) {
	b := brokers.RedisOwn(t)
	b.Pause(t)
	b.Stop(t)
	require.False(t, answers(b.Address()))
}

func TestAKafkaClientStaysBehindTheLink(t *testing.T) {
	b := brokers.Kafka(t, "a")
	wan := b.Link(t)
	client := kafkaClient(t, wan.Address())
	produce(t, client, "behind-link", "first")
	wan.Delay(200 * time.Millisecond)
	began := time.Now()
	produce(t, client, "behind-link", "slow")
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	wan.Cut()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	require.Error(t, client.Ping(ctx), "the client found a way around the link")
	require.NoError(t, wan.Heal())
	produce(t, client, "behind-link", "healed")
}

func TestARedisCanBeLinked(t *testing.T) {
	b := brokers.RedisOwn(t)
	wan := b.Link(t)
	client := redisClient(t, wan.Address())
	require.NoError(t, client.Ping(deadline(t, 5*time.Second)).Err())
	wan.Cut()
	require.Error(t, client.Ping(deadline(t, 5*time.Second)).Err())
	require.NoError(t, wan.Heal())
	require.NoError(t, client.Ping(deadline(t, 5*time.Second)).Err())
}

// The other side of the tests below: run alone, in a process of its own.
func TestHelperProcess(t *testing.T) {
	switch os.Getenv("MQFERRY_TEST_HELPER") {
	case "shared":
		brokers.Redis(t, "a")
	case "crash":
		_, _ = os.Stdout.WriteString("address=" + brokers.Redis(t, "a").Address() + "\n")
		<-time.After(time.Minute) // until it is killed
	case "senseless":
		brokers.RedisSecured(t, brokers.Security{User: brokers.User{Password: "x"}})
	case "rabbitmq":
		_, _ = os.Stdout.WriteString("address=" + brokers.RabbitMQ(t, "a").Address() + "\n")
	case "rabbitmq-crash":
		_, _ = os.Stdout.WriteString("address=" + brokers.RabbitMQ(t, "a").Address() + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other side closes it, or this process is killed
	default:
		t.Skip("only run by other tests")
	}
}

func helper(t *testing.T, environment ...string) *exec.Cmd {
	t.Helper()
	environment = append([]string{"TMPDIR=" + t.TempDir()}, environment...)
	command := exec.CommandContext(deadline(t, time.Minute), os.Args[0], "-test.run=^TestHelperProcess$", "-test.v")
	command.Env = append(os.Environ(), environment...)
	return command
}

func TestAMissingBrokerSkipsTheTestUnlessItIsRequired(t *testing.T) {
	missing := []string{"MQFERRY_TEST_HELPER=shared", "MQFERRY_TEST_REDIS_A=", "PATH=/nonexistent"}
	output, err := helper(t, append(missing, brokers.RequireVariable+"=")...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- SKIP")
	require.Contains(t, string(output), "run integration/brokers/install.sh, or set MQFERRY_TEST_REDIS_A")

	output, err = helper(t, append(missing, brokers.RequireVariable+"=1")...).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Contains(t, string(output), "--- FAIL")
	require.Contains(t, string(output), "redis-server: not installed")
}

func TestAnAddressFromTheEnvironmentIsTakenInsteadOfStarting(t *testing.T) {
	b := brokers.RedisOwn(t)
	address := "MQFERRY_TEST_REDIS_A=" + b.Address()
	output, err := helper(t, "MQFERRY_TEST_HELPER=shared", address, "PATH=/nonexistent").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS")
}

func TestTheDataOfASharedBrokerIsDeletedInTheEnd(t *testing.T) {
	brokers.RedisOwn(t) // skips where none is installed
	dir := t.TempDir()
	output, err := helper(t, "MQFERRY_TEST_HELPER=shared", "MQFERRY_TEST_REDIS_A=", "TMPDIR="+dir).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestACrashedTestLeavesNoBrokerBehind(t *testing.T) {
	brokers.RedisOwn(t) // skips where none is installed
	command := helper(t, "MQFERRY_TEST_HELPER=crash", "MQFERRY_TEST_REDIS_A=")
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	address := readAddress(t, output)
	require.True(t, answers(address))
	require.NoError(t, command.Process.Kill())
	_ = command.Wait() // it was killed
	require.Eventually(t, func() bool { return !answers(address) }, 10*time.Second, 10*time.Millisecond,
		"the broker outlived its test")
}

func readAddress(t *testing.T, output io.Reader) string {
	t.Helper()
	var text strings.Builder
	buffer := make([]byte, 1024)
	for {
		n, err := output.Read(buffer)
		text.Write(buffer[:n])
		if _, after, found := strings.Cut(text.String(), "address="); found {
			if address, _, whole := strings.Cut(after, "\n"); whole {
				return address
			}
		}
		require.NoError(t, err, text.String())
	}
}
