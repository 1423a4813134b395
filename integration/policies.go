package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/ledger"
	"github.com/mqferry/mqferry/integration/process"
	"github.com/mqferry/mqferry/router"
)

// commandTimeout bounds one run of mqferry poison.
const commandTimeout = time.Minute

// Command is a run of "mqferry poison".
type Command struct {
	process *process.Process
	log     string
}

// StartPoison starts "mqferry poison" with the words and the text of a config file; it is killed at the end of the test if it still runs.
func StartPoison(t testing.TB, config string, words ...string) *Command {
	t.Helper()
	program, err := shared.path()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "mqferry.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	c := &Command{log: filepath.Join(dir, "output")}
	c.process, err = process.Start(c.log, program, append([]string{"poison", "-c", file}, words...)...)
	require.NoError(t, err)
	t.Cleanup(c.process.Kill)
	return c
}

// Poison runs "mqferry poison" to its end, and returns its exit code and all that it wrote.
func Poison(t testing.TB, config string, words ...string) (code int, output string) {
	t.Helper()
	return StartPoison(t, config, words...).Wait(t)
}

// Kill ends the run with SIGKILL, and fails the test when it was over before.
func (c *Command) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, c.process.End(syscall.SIGKILL, 10*time.Second), "the command was over before it could be killed")
}

// Wait waits for the end of the run, and returns its exit code and all that it wrote.
func (c *Command) Wait(t testing.TB) (code int, output string) {
	t.Helper()
	Eventually(t, commandTimeout, func() string {
		if c.process.Running() {
			return "mqferry poison still runs"
		}
		return ""
	})
	text, err := os.ReadFile(c.log)
	require.NoError(t, err)
	return c.process.ExitCode(), string(text)
}

// Ended is how many messages of the route came to their end that way in this life of the program: "forwarded" or "parked", for example.
func (f *Ferry) Ended(r *Route, outcome string) int {
	status, body, err := f.get("/metrics")
	if err != nil || status != http.StatusOK {
		return 0
	}
	_, rest, _ := strings.Cut(body, fmt.Sprintf("mqferry_messages_total{outcome=%q,route=%q} ", outcome, r.Name))
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(line, 64)
	return int(n)
}

// InPoisonQueue gives what the route has in its poison queue, oldest first, as "mqferry poison" sees it.
func (r *Route) InPoisonQueue(t testing.TB, config string) []router.ParkedMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cfg, err := router.Parse("test.yml", []byte(config))
	require.NoError(t, err)
	queue, err := router.OpenPoisonQueue(ctx, cfg, r.Name)
	require.NoError(t, err)
	defer queue.Close()
	var all []router.ParkedMessage
	require.NoError(t, queue.Each(ctx, func(m router.ParkedMessage) bool {
		all = append(all, m)
		return true
	}))
	return all
}

// Parked is what a poison queue is to have of a route.
type Parked struct {
	First, Last int    // The numbers of the messages, as they were sent.
	Class       string // Of the error.
	Attempts    int
	AnyOrder    bool // The broker refused them together, so there is no order in which each was found guilty.
}

// WantParked wants the route to have parked exactly these messages, each once, in order, whole, with where they were read and why they are there. It is for sources of
// one lane, and for the first 100 messages. A RabbitMQ must be the source for a Redis, since what it is then expected to deliver is all that it has.
func (r *Route) WantParked(t testing.TB, config string, want Parked) {
	t.Helper()
	parked := r.InPoisonQueue(t, config)
	require.Len(t, parked, want.Last-want.First+1, "messages in the poison queue")
	lane := r.From.make(0, r.Name, r.To).lane
	numbers := map[int]bool{}
	for i, m := range parked {
		_, seq, err := placeOf(m.Record)
		require.NoError(t, err)
		require.False(t, numbers[int(seq)], "message %d is parked twice", seq)
		numbers[int(seq)] = true
		if !want.AnyOrder {
			require.Equal(t, want.First+i, int(seq), "the order in the poison queue")
		}
		require.True(t, want.First <= int(seq) && int(seq) <= want.Last, "message %d is parked", seq)
		r.wantWhole(t, r.early[place{lane, seq}], m, want)
	}
}

func (r *Route) wantWhole(t testing.TB, sent *record.Record, m router.ParkedMessage, want Parked) {
	t.Helper()
	require.Equal(t, describe(sent), describe(m.Record))
	require.Equal(t, fingerprint(sent), fingerprint(m.Record), "%s", describe(sent))
	require.Equal(t, sent.Source, m.Record.Source)
	require.Equal(t, want.Class, m.Class)
	require.Equal(t, want.Attempts, m.Attempts)
	require.NotEmpty(t, m.Reason)
	require.False(t, m.First.IsZero() || m.Last.Before(m.First), "it failed from %v to %v", m.First, m.Last)
}

// WantOneMissing reads the destination to its end and wants everything to be there but the n-th message of the source's one lane: in order, and with so many
// duplicates at most. It reports what it found.
func (r *Route) WantOneMissing(t testing.TB, n, duplicates int) ledger.Report {
	t.Helper()
	report := r.Check(t)
	require.Zero(t, report.OutOfOrder+report.Damaged+report.Unknown, "%s; %v", report, report.Findings)
	require.LessOrEqual(t, report.Duplicated, duplicates, "%s; %v", report, report.Findings)
	gaps := r.books.Gaps(r.From.make(0, r.Name, r.To).lane)
	require.Equal(t, []ledger.Gap{{First: uint64(n), Last: uint64(n)}}, gaps, "%s", report)
	return report
}

// WantInAnyOrder reads the destination to its end and wants everything that was sent to be there as it was, with so many duplicates at most: what
// was parked arrives after its neighbours. It reports what it found.
func (r *Route) WantInAnyOrder(t testing.TB, duplicates int) ledger.Report {
	t.Helper()
	report := r.Check(t)
	require.Zero(t, report.Lost+report.Damaged+report.Unknown, "%s; %v", report, report.Findings)
	require.LessOrEqual(t, report.Duplicated, duplicates, "%s; %v", report, report.Findings)
	return report
}

// WantParkedCount wants "mqferry poison list" to know so many messages of the route.
func (r *Route) WantParkedCount(t testing.TB, config string, n int) {
	t.Helper()
	code, output := Poison(t, config, "list", r.Name, "--json")
	require.Zero(t, code, output)
	require.Equal(t, n, strings.Count(output, `{"id":`), output)
}

// Bind binds the queue to an exchange, which is made as a fanout if it is missing; Unbind ends that.
func (q *RabbitMQ) Bind(t testing.TB, exchange string) {
	t.Helper()
	require.NoError(t, q.ask(func(c *amqp.Channel) error {
		if err := c.ExchangeDeclare(exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return err
		}
		return c.QueueBind(q.queue, "", exchange, false, nil)
	}))
}

// Unbind is the opposite of Bind.
func (q *RabbitMQ) Unbind(t testing.TB, exchange string) {
	t.Helper()
	require.NoError(t, q.ask(func(c *amqp.Channel) error { return c.QueueUnbind(q.queue, "", exchange, nil) }))
}

// Set changes a setting of the server while it runs, such as maxmemory.
func (r *Redis) Set(t testing.TB, name, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	require.NoError(t, r.client.ConfigSet(ctx, name, value).Err())
}
