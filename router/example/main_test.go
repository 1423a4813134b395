package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) {
	// The suite leaves behind what it starts to read from several subscribers at once, when they have more messages than it reads.
	multiplied := "github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(multiplied+".func2"), goleak.IgnoreAnyFunction(multiplied+".func3"))
}

// built makes the program as a user does.
func built(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "ferry")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// place is a folder with the example's own configuration, where the program runs.
type place struct {
	*testing.T
	program string
	dir     string
	log     *os.File
	running *exec.Cmd
}

func newPlace(t *testing.T, program string) *place {
	t.Helper()
	p := &place{T: t, program: program, dir: t.TempDir()}
	text, err := os.ReadFile("example.yml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "example.yml"), text, 0o600))
	p.log, err = os.Create(filepath.Join(p.dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		if p.running != nil {
			p.kill()
		}
		if t.Failed() {
			text, _ := os.ReadFile(p.log.Name())
			t.Logf("the program's log:\n%s", text)
		}
		_ = p.log.Close()
	})
	return p
}

// output runs the program to its end.
func (p *place) output(args ...string) string {
	p.Helper()
	out, err := exec.Command(p.program, args...).CombinedOutput()
	require.NoError(p, err, string(out))
	return string(out)
}

func (p *place) start() {
	p.Helper()
	// From another folder than that of the configuration, which its paths are relative to.
	p.running = exec.Command(p.program, "run", "-c", filepath.Join(p.dir, "example.yml"))
	p.running.Stdout, p.running.Stderr = p.log, p.log
	require.NoError(p, p.running.Start())
}

func (p *place) kill() {
	_ = p.running.Process.Kill()
	_ = p.running.Wait()
	p.running = nil
}

// stop asks the program to end, which must succeed.
func (p *place) stop() {
	p.Helper()
	late := time.AfterFunc(patience, func() { _ = p.running.Process.Kill() })
	defer late.Stop()
	require.NoError(p, p.running.Process.Signal(syscall.SIGTERM))
	require.NoError(p, p.running.Wait())
	p.running = nil
}

// produce puts messages with these numbers into the inbox.
func (p *place) produce(from, to int) {
	p.Helper()
	publisher := publisherAt(p.T, filepath.Join(p.dir, "spool-a"))
	for i := from; i < to; i++ {
		require.NoError(p, publisher.Publish("inbox", message.NewMessage("id-"+strconv.Itoa(i), []byte(strconv.Itoa(i)))))
	}
}

// waiting are the names of the messages in a topic.
func (p *place) waiting(topic string) []string {
	entries, err := os.ReadDir(filepath.Join(p.dir, topic))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(p, err)
	var names []string
	for _, e := range entries {
		if isMessage(e) {
			names = append(names, e.Name())
		}
	}
	return names
}

// arrived are the payloads in the outbox, in order; all of them must be stamped.
func (p *place) arrived() []int {
	p.Helper()
	var all []int
	for _, name := range p.waiting("spool-b/outbox") {
		msg, err := load(filepath.Join(p.dir, "spool-b/outbox", name))
		require.NoError(p, err)
		require.Equal(p, message.Metadata{"via": "example"}, msg.Metadata)
		require.Equal(p, "id-"+string(msg.Payload), msg.UUID)
		n, err := strconv.Atoi(string(msg.Payload))
		require.NoError(p, err)
		all = append(all, n)
	}
	return all
}

// until waits for a number of files in the outbox, and for an empty inbox if all are wanted.
func (p *place) until(n int, all bool) {
	p.Helper()
	require.Eventually(p, func() bool {
		return len(p.waiting("spool-b/outbox")) >= n && (!all || len(p.waiting("spool-a/inbox")) == 0)
	}, patience, time.Millisecond)
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func publisherAt(t *testing.T, root string) message.Publisher {
	t.Helper()
	c, _, destination := defaultSpool()
	c.Path = config.Path(root)
	require.NoError(t, c.Validate())
	conn, err := openSpool(t.Context(), c, handlers.Settings{})
	require.NoError(t, err)
	publisher, err := conn.Publisher(handlers.Destination{}, destination)
	require.NoError(t, err)
	return publisher
}

func TestTheProgram(t *testing.T) {
	program := built(t)
	for name, test := range map[string]func(*place){
		"knows its own broker and middleware":                        knowsItsOwn,
		"stamps all messages once and in order":                      stampsInOrder,
		"repeats nothing when it is stopped in the middle":           repeatsNothing,
		"loses nothing when it is killed, and repeats one at most":   losesNothing,
		"shows that two routes read one topic, which is a mistake":   showsTwoReaders,
		"waits for a spool whose folder cannot be made at the start": waitsForASpool,
	} {
		t.Run(name, func(t *testing.T) { test(newPlace(t, program)) })
	}
}

func knowsItsOwn(p *place) {
	require.Contains(p, p.output("validate", "-c", filepath.Join(p.dir, "example.yml")), "mail: a/inbox -> b/outbox")
	schema := p.output("validate", "--schema")
	for _, want := range []string{`"spool": {`, `"path": {`, `"poll": {`, `"stamp": {`, `"drop_empty": {`, `"relayed-by"`} {
		require.Contains(p, schema, want)
	}
}

func stampsInOrder(p *place) {
	p.produce(0, 50)
	p.start()
	p.until(50, true)
	p.produce(50, 100)
	empty := filepath.Join(p.dir, "spool-a", "inbox", "0.json")
	require.NoError(p, os.WriteFile(empty+".tmp", []byte(`{"id": "nothing", "payload": ""}`), 0o600))
	require.NoError(p, os.Rename(empty+".tmp", empty))
	p.until(100, true)
	p.stop()
	require.Equal(p, upTo(100), p.arrived())
}

func repeatsNothing(p *place) {
	n, _ := p.interrupt(3, p.stop)
	p.start()
	p.until(n, true)
	p.stop()
	require.Equal(p, upTo(n), p.arrived())
}

func losesNothing(p *place) {
	n, kills := p.interrupt(3, p.kill)
	p.start()
	p.until(n, true)
	p.stop()
	all := p.arrived()
	require.Equal(p, upTo(n), slices.Compact(slices.Clone(all)))
	require.LessOrEqual(p, len(all), n+kills)
}

// interrupt ends the program while it has work to do, several times, and tells how many messages were produced, and how often it was ended. On a busy
// machine the end may come when all is done: that does not count.
func (p *place) interrupt(times int, end func()) (produced, ends int) {
	p.Helper()
	for hit := 0; hit < times; ends++ {
		require.Less(p, ends, 10*times, "the program is always done before it is ended")
		p.produce(produced, produced+100)
		produced += 100
		before := len(p.waiting("spool-b/outbox"))
		p.start()
		p.until(before+10, false)
		end()
		if len(p.waiting("spool-a/inbox")) > 0 {
			hit++
		}
	}
	return produced, ends
}

func showsTwoReaders(p *place) {
	p.reconfigure(func(text string) string { return text + "  - {name: again, from: a/inbox, to: b/other}\n" })
	p.start()
	p.logs("let only one route read each topic")
	p.stop()
}

func waitsForASpool(p *place) {
	p.reconfigure(func(text string) string { return strings.ReplaceAll(text, "path: spool-", "path: later/spool-") })
	p.start()
	p.logs("no such file or directory")
	require.NoError(p, os.Mkdir(filepath.Join(p.dir, "later"), 0o700))
	p.logs(`"running"`)
	p.stop()
}

// reconfigure changes the configuration.
func (p *place) reconfigure(change func(string) string) {
	p.Helper()
	file := filepath.Join(p.dir, "example.yml")
	text, err := os.ReadFile(file)
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(file, []byte(change(string(text))), 0o600))
}

// logs waits until the program's log has a text.
func (p *place) logs(want string) {
	p.Helper()
	require.Eventually(p, func() bool {
		log, err := os.ReadFile(p.log.Name())
		return err == nil && strings.Contains(string(log), want)
	}, patience, 10*time.Millisecond)
}
