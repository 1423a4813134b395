package brokers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mqferry/mqferry/integration/link"
	"github.com/mqferry/mqferry/integration/process"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
	pollInterval = 50 * time.Millisecond
)

// software is what Kafka, RabbitMQ and Redis do differently.
type software interface {
	kind() string
	// given turns what an environment variable says into the software as it is reached there, and host:port.
	given(address string) (software, string, error)
	// missing says what is not installed, as an error that wraps errMissing.
	missing() error
	// secured is the same with other demands on its clients.
	secured(demands Security) software
	// prepare writes what the next start needs into the folder, which may hold data already.
	prepare(dir string, p ports) error
	// command is the program and its arguments.
	command(dir string, p ports) (string, []string)
	// behindLink is the port where a link connects to.
	behindLink(p ports) int
	// ping asks the broker for something that only a working one can answer.
	ping(ctx context.Context, address string) error
	// settle is called when the broker answers for the first time since prepare, for what cannot be prepared.
	settle(ctx context.Context, dir string, p ports) error
}

// Broker is a running broker on this machine. Its methods fail the test when they do not succeed in time; they are safe
// for concurrent use.
type Broker struct {
	ports   ports
	dir     string
	address string

	mu      sync.Mutex       // held while it starts or ends
	process *process.Process // nil for a broker that was given by its address

	changing sync.Mutex
	software software
}

func (b *Broker) current() software {
	b.changing.Lock()
	defer b.changing.Unlock()
	return b.software
}

func (b *Broker) set(s software) {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.software = s
}

// name is for messages.
func (b *Broker) name() string { return b.current().kind() + " at " + b.address }

// newBroker starts a broker on ports and data of its own.
func newBroker(s software) (*Broker, error) {
	if err := s.missing(); err != nil {
		return nil, err
	}
	p, err := reservePorts()
	if err != nil {
		return nil, fmt.Errorf("ports for %s: %w", s.kind(), err)
	}
	b := &Broker{software: s, ports: p, address: address(p.client)}
	if err := b.create(); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

func (b *Broker) create() error {
	kind := b.current().kind()
	dir, err := os.MkdirTemp("", "mqferry-"+kind+"-")
	if err != nil {
		return fmt.Errorf("folder for %s: %w", kind, err)
	}
	b.dir = dir
	return b.prepareAndStart()
}

// prepareAndStart is start with what has changed since the last one; the caller holds mu, or nobody else knows the broker yet.
func (b *Broker) prepareAndStart() error {
	s := b.current()
	if err := s.prepare(b.dir, b.ports); err != nil {
		return fmt.Errorf("prepare %s: %w", b.name(), err)
	}
	if err := b.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.settle(ctx, b.dir, b.ports); err != nil {
		return fmt.Errorf("users of %s: %w", b.name(), err)
	}
	return nil
}

// given is a broker that somebody else started.
func given(s software, value string) (*Broker, error) {
	reached, address, err := s.given(value)
	if err != nil {
		return nil, fmt.Errorf("the given %s: %w", s.kind(), err)
	}
	b := &Broker{software: reached, address: address}
	if err := b.ready(func() bool { return true }); err != nil {
		return nil, err
	}
	return b, nil
}

// Address is the host:port that clients connect to. It stays the same through Stop, Kill and Start.
func (b *Broker) Address() string { return b.address }

// Started reports whether this package started the broker and so can stop, kill, pause and link it; it is false for
// one that was given by its address.
func (b *Broker) Started() bool { return b.dir != "" }

// Stop ends the broker as an operator would, with SIGTERM, and waits until it has exited. The data stays.
func (b *Broker) Stop(t testing.TB) {
	t.Helper()
	b.end(t, syscall.SIGTERM)
}

// Kill ends the broker with SIGKILL, as a crash would, and waits until it has exited. The data stays, but for a quorum queue
// of RabbitMQ that was declared less than a second before: its declaration is written late, and it never serves again.
func (b *Broker) Kill(t testing.TB) {
	t.Helper()
	b.end(t, syscall.SIGKILL)
}

// Pause stops the broker in its tracks: connections stay open, nothing is answered, until Resume.
func (b *Broker) Pause(t testing.TB) {
	t.Helper()
	b.signal(t, process.PauseSignal)
}

// Resume ends a Pause.
func (b *Broker) Resume(t testing.TB) {
	t.Helper()
	b.signal(t, process.ResumeSignal)
}

// Start runs a stopped or killed broker again, on the same port with the same data, and waits until it answers.
func (b *Broker) Start(t testing.TB) {
	t.Helper()
	b.needStarted(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process.Running() {
		t.Fatalf("%s is running already", b.name())
	}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
}

// Link puts a link in front of the broker, for clients that connect to the link's address; it is closed with the test.
// A Kafka has one link at a time: its clients are told to come back to that link's address, whichever way they came.
func (b *Broker) Link(t testing.TB) *link.Link {
	t.Helper()
	b.needStarted(t)
	l, err := b.NewLink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (b *Broker) needStarted(t testing.TB) {
	t.Helper()
	if !b.Started() {
		t.Skipf("%s was given by its address: this test needs one that it can stop or link", b.name())
	}
}

// start runs the process and waits until it answers; the caller holds mu, or nobody else knows the broker yet.
func (b *Broker) start() error {
	program, arguments := b.current().command(b.dir, b.ports)
	p, err := process.Start(filepath.Join(b.dir, "output.log"), program, arguments...)
	if err != nil {
		return fmt.Errorf("start %s: %w", b.name(), err)
	}
	b.process = p
	if err := b.ready(p.Running); err != nil {
		p.Kill()
		return fmt.Errorf("%w\nits last output:\n%s", err, p.LastOutput())
	}
	return nil
}

// ready waits until the broker answers, as long as it is alive.
func (b *Broker) ready(alive func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := b.current().ping(ctx, b.address)
		if err == nil {
			return nil
		}
		if !alive() {
			return fmt.Errorf("%s ended while it was starting", b.name())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer within %s: %w", b.name(), startTimeout, err)
		}
	}
}

func (b *Broker) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	b.needStarted(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked(t, s)
}

func (b *Broker) endLocked(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := b.process.End(s, stopTimeout); err != nil {
		t.Fatalf("stop %s: %v", b.name(), err)
	}
}

func (b *Broker) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	b.needStarted(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.process.Signal(s); err != nil {
		t.Fatalf("signal %s: %v", b.name(), err)
	}
}

// remove kills the broker, deletes its data and gives its ports back. The data goes anyway, so nothing is gained by a
// clean stop.
func (b *Broker) remove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		b.process.Kill()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
	b.ports.release()
}
