package redisstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	// blockTime is how long one read waits for something new: finite, so that a stream that is gone is noticed.
	blockTime = time.Second
	// ackChunk is how many ids one XACK, XCLAIM or XPENDING is about: longer ones would hold up the server.
	ackChunk = 1000
)

// reader reads one stream through its group. Fetch runs in one goroutine, Commit in another, and keep in a third.
type reader struct {
	connection *connection
	source     handlers.Source
	options    SourceConfig
	consumer   string
	token      string        // Tells this reader from any other that has the same name.
	client     *redis.Client // For all that must go on while a read blocks.
	batch      batch         // Fetch's own.
	created    bool          // Fetch's own: the group was there once.

	leasing sync.Mutex // Held while the lease is asked for, and while the lane is brought in step with the answer.
	keeping sync.WaitGroup
	stop    context.CancelFunc
	life    context.Context // Ends with Close.

	mu          sync.Mutex
	started     bool
	inlet       *handlers.Inlet      // Open while this instance has the lease.
	held        map[entryID]struct{} // Handed to the inlet and not acked yet.
	predecessor string               // Who had the lease before, while its entries may be pending.
	end         context.CancelCauseFunc
}

// What the lease may do to a session: end it, or not let it begin.
var (
	errLost    = errors.New("another instance took the lease of the stream")
	errStandby = errors.New("standing by")
)

func newReader(c *connection, s handlers.Source, o SourceConfig) *reader {
	consumer := o.Consumer
	if consumer == "" {
		consumer = c.settings.Instance
	}
	if consumer == "" {
		consumer = "mqferry"
	}
	life, stop := context.WithCancel(context.Background())
	return &reader{
		connection: c, source: s, options: o, consumer: consumer, token: rand.Text(),
		client: redis.NewClient(c.options(3)),
		batch:  newBatch(s.Window, s.Bytes),
		held:   map[entryID]struct{}{},
		life:   life, stop: stop,
	}
}

// Fetch reads until ctx ends.
func (r *reader) Fetch(ctx context.Context, in *handlers.Intake) error {
	r.mu.Lock()
	if !r.started {
		r.started = true
		r.keeping.Go(r.keep)
	}
	r.mu.Unlock()
	backoff := lane.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second}
	failures := 0
	for ctx.Err() == nil {
		err := r.session(ctx, in, func() { failures = 0 })
		if ctx.Err() != nil {
			break
		}
		failures++
		r.report(err)
		handlers.Pause(ctx, backoff.After(failures))
	}
	return ctx.Err()
}

// report says why a session ended. A group that is gone is no failure of the connection, nor is a lease that another instance took.
func (r *reader) report(err error) {
	err = r.connection.permitSource(r.source, err)
	switch {
	case errors.Is(err, errLost):
		r.source.Health.Down(err)
	case redis.HasErrorPrefix(err, "NOGROUP"):
	default:
		r.source.Health.Down(err)
		r.source.Meter.Reconnects.Add(1)
	}
}

// session gets the lease, takes over what is pending, and reads what is new, on one connection, until something fails.
func (r *reader) session(parent context.Context, in *handlers.Intake, good func()) error {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	r.mu.Lock()
	r.end = end
	r.mu.Unlock()
	inlet, err := r.awaitLease(ctx, in)
	if err != nil {
		return err
	}
	o := r.connection.options(1)
	o.Dialer, o.ReadTimeout = r.dialPatient, -1
	client := redis.NewClient(o)
	defer client.Close()
	// A blocked read looks at no context.
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	s := &session{reader: r, source: r.source, client: client, inlet: inlet}
	err = s.run(ctx, good)
	if cause := context.Cause(ctx); cause != nil && parent.Err() == nil {
		return cause
	}
	return err
}

// dialPatient opens a connection whose reads may take as long as something comes: a large batch on a slow link takes its time.
func (r *reader) dialPatient(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := r.connection.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &patient{Conn: conn, silence: blockTime + answerTimeout}, nil
}

// patient is a connection whose read deadline counts from the last byte, not from the question.
type patient struct {
	net.Conn
	silence time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.Conn.SetReadDeadline(time.Now().Add(p.silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

func (p *patient) SetReadDeadline(time.Time) error { return nil }

// Commit acks entries, all in one pipeline.
func (r *reader) Commit(ctx context.Context, settled []handlers.Settled) error {
	var ids []entryID
	for _, s := range settled {
		for _, rec := range s.Records {
			if id, ok := parseID(rec.Source.Position); ok {
				ids = append(ids, id)
			}
		}
	}
	if err := r.ack(ctx, r.client, ids); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.held, id)
	}
	return nil
}

func (r *reader) ack(ctx context.Context, client *redis.Client, ids []entryID) error {
	if len(ids) == 0 {
		return nil
	}
	pipeline := client.Pipeline()
	for len(ids) > 0 {
		n := min(len(ids), ackChunk)
		pipeline.XAck(ctx, r.source.Topic, r.source.Group, texts(ids[:n])...)
		ids = ids[n:]
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		return fmt.Errorf("ack entries of stream %s/%s: %w", r.source.DataCenter, r.source.Topic, err)
	}
	return nil
}

// Close gives the lease back, so that another instance need not wait for its end, and closes the connections.
func (r *reader) Close() error {
	r.stop()
	r.keeping.Wait()
	r.release()
	return r.client.Close()
}

// hold notes that an entry is being handed over, and reports whether it was not handed over already.
func (r *reader) hold(id entryID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.held[id]; known {
		return false
	}
	r.held[id] = struct{}{}
	return true
}

func (r *reader) holds(id entryID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.held[id]
	return known
}

// place is where the entries of the stream are, but for their position.
func (r *reader) place() record.Source {
	return record.Source{DataCenter: r.source.DataCenter, Topic: r.source.Topic}
}

func texts(ids []entryID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}
