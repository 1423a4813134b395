package brokers_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration/brokers"
)

// long skips a test that waits for brokers of its own and exercises nothing that a race detector would see.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts slow brokers of its own")
	}
}

func rabbitChannel(t *testing.T, address string) *amqp.Channel {
	t.Helper()
	connection, err := amqp.DialConfig(address, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	require.NoError(t, err)
	return channel
}

func declare(t *testing.T, channel *amqp.Channel, queue, kind string) {
	t.Helper()
	_, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: kind})
	require.NoError(t, err)
}

func publish(t *testing.T, channel *amqp.Channel, queue, body string) {
	t.Helper()
	require.NoError(t, channel.Confirm(false))
	ctx := deadline(t, 10*time.Second)
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, message)
	require.NoError(t, err)
	confirmed, err := confirm.WaitContext(ctx)
	require.NoError(t, err)
	require.True(t, confirmed)
}

func get(t *testing.T, channel *amqp.Channel, queue string) string {
	t.Helper()
	message, found, err := channel.Get(queue, true)
	require.NoError(t, err)
	require.True(t, found, "queue %s is empty", queue)
	return string(message.Body)
}

func TestTwoRabbitMQsAreSharedAndApart(t *testing.T) {
	a, b := brokers.RabbitMQ(t, "a"), brokers.RabbitMQ(t, "b")
	require.Same(t, a, brokers.RabbitMQ(t, "a"))
	require.NotEqual(t, a.Address(), b.Address())
	declare(t, rabbitChannel(t, a.URL()), "only-in-a", "classic")
	_, err := rabbitChannel(t, b.URL()).QueueDeclarePassive("only-in-a", true, false, false, false, nil)
	var refused *amqp.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, amqp.NotFound, refused.Code)
}

func TestARabbitMQKeepsItsDataThroughStopAndKill(t *testing.T) {
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	address := b.Address()
	channel := rabbitChannel(t, b.URL())
	declare(t, channel, "classic", "classic")
	declare(t, channel, "quorum", "quorum")
	for i, end := range []func(testing.TB){b.Stop, b.Kill} {
		publish(t, channel, "classic", "c"+strconv.Itoa(i))
		publish(t, channel, "quorum", "q"+strconv.Itoa(i))
		end(t)
		require.False(t, answers(address))
		b.Start(t)
		require.Equal(t, address, b.Address())
		channel = rabbitChannel(t, b.URL())
	}
	for _, want := range []string{"0", "1"} {
		require.Equal(t, "c"+want, get(t, channel, "classic"))
		require.Equal(t, "q"+want, get(t, channel, "quorum"))
	}
}

func TestARabbitMQTakesSettingsAndCommands(t *testing.T) {
	long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t, "channel_max = 77", "collect_statistics_interval = 1500")
	require.Equal(t, "{ok,77}\n", b.Ctl(t, "eval", "application:get_env(rabbit, channel_max)."))
	require.Equal(t, "{ok,1500}\n", b.Ctl(t, "eval", "application:get_env(rabbit, collect_statistics_interval)."))
}

func TestAStartKeepsWhatATestDidToTheUser(t *testing.T) {
	long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	b.Ctl(t, "set_user_tags", "guest", "monitoring")
	b.Stop(t)
	b.Start(t)
	require.Equal(t, "guest\t[monitoring]\n", strings.TrimPrefix(b.Ctl(t, "list_users"), "user\ttags\n"))
}

func TestTheManagementAPIClosesAConnection(t *testing.T) {
	long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	channel := rabbitChannel(t, b.URL())
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	name := strings.TrimSpace(b.Ctl(t, "list_connections", "name"))
	address := b.ManagementURL() + "/api/connections/" + url.PathEscape(name)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	require.Eventually(t, func() bool { return deleteOf(t, address) == http.StatusNoContent }, 15*time.Second, 100*time.Millisecond)
	select {
	case reason := <-closed:
		require.Equal(t, amqp.ConnectionForced, reason.Code)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the connection is still open")
	}
}

func deleteOf(t *testing.T, address string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(deadline(t, 10*time.Second), http.MethodDelete, address, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

func TestAPausedRabbitMQAnswersAfterResume(t *testing.T) {
	long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	channel := rabbitChannel(t, b.URL())
	declare(t, channel, "paused", "classic")
	require.NoError(t, channel.Confirm(false))
	b.Pause(t)
	confirm, err := channel.PublishWithDeferredConfirm("", "paused", true, false, amqp.Publishing{Body: []byte("late")})
	require.NoError(t, err)
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = confirm.WaitContext(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	b.Resume(t)
	confirmed, err := confirm.WaitContext(deadline(t, 10*time.Second))
	require.NoError(t, err)
	require.True(t, confirmed)
	b.Pause(t)
	b.Stop(t)
	require.False(t, answers(b.Address()))
}

func TestARabbitMQCanBeLinked(t *testing.T) {
	b := brokers.RabbitMQ(t, "a")
	wan := b.Link(t)
	channel := rabbitChannel(t, b.URLAt(wan.Address()))
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	wan.Cut()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the connection outlived its link")
	}
	require.NoError(t, wan.Heal())
	declare(t, rabbitChannel(t, b.URLAt(wan.Address())), "behind-link", "classic")
}

func TestARabbitMQFromTheEnvironmentIsTakenByURLOrAddress(t *testing.T) {
	long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	b.Ctl(t, "add_vhost", "other")
	b.Ctl(t, "add_user", "carla", "p/w@rd")
	b.Ctl(t, "set_permissions", "-p", "other", "carla", ".*", ".*", ".*")
	for _, value := range []string{b.Address(), b.URL(), "amqp://carla:p%2Fw%40rd@" + b.Address() + "/other"} {
		output, err := helper(t, "MQFERRY_TEST_HELPER=rabbitmq", "MQFERRY_TEST_RABBITMQ_A="+value).CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Contains(t, string(output), "address="+b.Address()+"\n")
	}
	output, err := helper(t, "MQFERRY_TEST_HELPER=rabbitmq", "MQFERRY_TEST_RABBITMQ_A=amqp://a:canary@[oops").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "the given rabbitmq: not an amqp:// URL")
	require.NotContains(t, string(output), "canary")
}

// The scripts and the Erlang machine start programs of their own; all are known by their environment, which names the folder.
func TestNoProcessOfARabbitMQOutlivesIt(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/lib/rabbitmq/bin/rabbitmq-server"); err != nil {
		t.Skip("no RabbitMQ is installed: other tests say how to get it")
	}
	for _, crash := range []bool{false, true} {
		dir := t.TempDir()
		command := helper(t, "MQFERRY_TEST_HELPER=rabbitmq-crash", "MQFERRY_TEST_RABBITMQ_A=", "TMPDIR="+dir)
		output, err := command.StdoutPipe()
		require.NoError(t, err)
		input, err := command.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		readAddress(t, output)
		require.NotEmpty(t, processesOf(t, dir))
		if crash {
			require.NoError(t, command.Process.Kill())
		}
		require.NoError(t, input.Close())
		_ = command.Wait() // it may have been killed
		require.Eventually(t, func() bool { return len(processesOf(t, dir)) == 0 }, 10*time.Second, 20*time.Millisecond,
			"crash: %v", crash)
	}
}

// processesOf are the processes whose environment names a folder below dir as their HOME.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var found []string
	for _, file := range environments {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "HOME="+dir) {
			found = append(found, file)
		}
	}
	return found
}
