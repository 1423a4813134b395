package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	// leaveTimeout bounds the good-bye to the group.
	leaveTimeout = 3 * time.Second
	// errorPause is between polls that return errors.
	errorPause = 200 * time.Millisecond
)

// errRecreated ends a Fetch whose topic is not the one that the group began with.
var errRecreated = errors.New("the source topic was deleted, and perhaps made again")

// reader is a member of a consumer group: each partition that it is given is a lane. The client stays in the group from the first
// Fetch until Close, so that lanes can be emptied and committed after Fetch has ended.
type reader struct {
	conn     *Connection
	source   handlers.Source
	config   SourceConfig
	hooks    *hooks
	appetite *appetite   // Of the client; used by Fetch alone.
	gone     atomic.Bool // The topic was deleted: nothing of it can be committed any more.

	mu      sync.Mutex
	client  *kgo.Client
	leaving *kgo.Client // It is still good for commits.
	topic   found       // As it was when the client was made.
	fetched offsets     // What the group had committed for the partitions just assigned.
	lanes   map[int32]*assignment
	inlets  map[*handlers.Inlet]*assignment // Also those that are being emptied.
	turnstile
}

// assignment is a partition that the group gave to this member: a lane.
type assignment struct {
	partition int32
	inlet     *handlers.Inlet
	paused    atomic.Bool

	// Guarded by the reader's lock.
	epochs  []epoch
	average int // Bytes of a record.
}

// epoch is the term of a partition's leader; a commit names that of its offset, so that Kafka can tell when a log was cut.
type epoch struct {
	from int64 // The first offset of it.
	term int32
}

func newReader(c *Connection, source handlers.Source, o SourceConfig) *reader {
	r := &reader{
		conn: c, source: source, config: o,
		hooks:  &hooks{config: c.config, health: source.Health, meter: source.Meter},
		lanes:  map[int32]*assignment{},
		inlets: map[*handlers.Inlet]*assignment{},
	}
	r.turnstile.init(&r.mu)
	return r
}

// Fetch joins the group, unless it is in it already, and polls until ctx ends.
func (r *reader) Fetch(ctx context.Context, in *handlers.Intake) error {
	client, err := r.join(ctx, in)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		poll := r.turnstile.enter(ctx)
		fetches := client.PollFetches(poll)
		pushed := poll.Err() != nil
		r.appetite.adjust(client)
		r.offer(client, fetches)
		r.turnstile.leave()
		err := r.complaint(fetches)
		switch {
		case err == nil && pushed:
			continue
		case err == nil:
			r.source.Health.Up()
			continue
		case errors.Is(err, errRecreated):
			r.gone.Store(true)
			r.leave()
			return err
		case errors.Is(err, kgo.ErrClientClosed):
			return err
		}
		r.source.Health.Down(r.hooks.explain(err))
		handlers.Pause(ctx, errorPause) // The client would return the same error at once.
	}
	return nil
}

// complaint gives the first error of what was polled that means anything.
func (r *reader) complaint(fetches kgo.Fetches) error {
	var first error
	fetches.EachError(func(_ string, partition int32, err error) {
		var lost *kgo.ErrDataLoss
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return
		case errors.As(err, &lost):
			r.source.Logger.Warn("the source's log was cut behind what was read", "topic", r.source.Topic, "partition", partition, "error", err)
			return
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
			first = fmt.Errorf("fetch %s/%d: %w: %w", r.source.Topic, partition, errRecreated, err)
		case first == nil:
			first = fmt.Errorf("fetch %s/%d: %w", r.source.Topic, partition, err)
		}
	})
	return first
}

// offer hands what was fetched to the lanes. What belongs to no lane was taken away meanwhile; it was fetched before that.
func (r *reader) offer(client *kgo.Client, fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		records := make([]*record.Record, len(p.Records))
		bytes := 0
		for i, k := range p.Records {
			records[i] = fromKafka(r.source.DataCenter, k)
			bytes += records[i].Size()
		}
		r.mu.Lock()
		l := r.lanes[p.Partition]
		if l != nil {
			l.note(p.Records)
			l.average = max(bytes/len(records), 1)
		}
		r.mu.Unlock()
		if l != nil {
			l.inlet.Offer(records...)
		}
	})
	for _, l := range r.glutted() {
		r.pause(client, l)
	}
}

// glutted lists the lanes that hold up more than their share of what lanes may be offered, an eighth of the route's bytes, if together they hold
// up more than that; a lane that alone holds up half of it is always one of them.
func (r *reader) glutted() []*assignment {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.source.Bytes / 8
	backlogs := make(map[*assignment]int64, len(r.lanes))
	var total int64
	for _, l := range r.lanes {
		backlogs[l] = int64(l.inlet.Backlog()) * int64(l.average)
		total += backlogs[l]
	}
	var full []*assignment
	for l, backlog := range backlogs {
		if backlog > most/2 || total > most && backlog >= most/int64(len(backlogs)) {
			full = append(full, l)
		}
	}
	return full
}

// note remembers the terms of the records' leaders.
func (l *assignment) note(records []*kgo.Record) {
	for _, k := range records {
		if n := len(l.epochs); n == 0 || l.epochs[n-1].term != k.LeaderEpoch {
			l.epochs = append(l.epochs, epoch{from: k.Offset, term: k.LeaderEpoch})
		}
	}
}

// term gives the leader's term of an offset, and forgets those before it.
func (l *assignment) term(offset int64) int32 {
	for len(l.epochs) > 1 && l.epochs[1].from <= offset {
		l.epochs = l.epochs[1:]
	}
	if len(l.epochs) == 0 {
		return -1
	}
	return l.epochs[0].term
}

// pause stops fetching for a lane until it has emitted what it was offered. The client fetches again what it had fetched ahead.
func (r *reader) pause(client *kgo.Client, l *assignment) {
	if l.paused.Swap(true) {
		return
	}
	client.PauseFetchPartitions(map[string][]int32{r.source.Topic: {l.partition}})
	if l.inlet.Backlog() == 0 { // It became hungry in between.
		r.resume(client, l)
	}
}

func (r *reader) resume(client *kgo.Client, l *assignment) {
	if l.paused.Swap(false) {
		client.ResumeFetchPartitions(map[string][]int32{r.source.Topic: {l.partition}})
	}
}

// Close leaves the group.
func (r *reader) Close() error {
	r.leave()
	return nil
}

// leave empties the lanes, if there are any, and ends the client. The others of the group get the partitions at once.
func (r *reader) leave() {
	r.mu.Lock()
	client := r.client
	r.client, r.leaving = nil, client
	r.mu.Unlock()
	if client == nil {
		return
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leaving = nil
	}()
	timeout := leaveTimeout
	if r.gone.Load() { // The lanes are to be emptied yet.
		timeout += drainTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	member, _ := client.GroupMetadata()
	_ = client.LeaveGroupContext(ctx) // What follows is the same whether or not the group heard it.
	client.Close()
	r.resign(member)
}

// resign takes a static member out of its group: the client leaves it there, to come back. It names the member's id, so that
// nobody else is thrown out who has the name by now.
func (r *reader) resign(member string) {
	id := r.instance()
	if id == "" || member == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = r.source.Group
	leaving := kmsg.NewLeaveGroupRequestMember()
	leaving.MemberID, leaving.InstanceID = member, &id
	request.Members = append(request.Members, leaving)
	_, _ = request.RequestWith(ctx, r.conn.client)
}

// name is what a lane is called: the partition's number.
func name(partition int32) string { return strconv.Itoa(int(partition)) }
