package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
)

const (
	// rebalanceTimeout is how long the group waits for a member that empties the lanes it is to give away.
	rebalanceTimeout = 60 * time.Second
	// drainTimeout is how long a lane that is to be given away may take to be emptied. What is not confirmed by then is delivered again by its next owner.
	drainTimeout = 30 * time.Second
)

// join makes the client, and with it the member of the group, if there is none.
func (r *reader) join(ctx context.Context, in *handlers.Intake) (*kgo.Client, error) {
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	if client != nil {
		return client, nil
	}
	detail, err := r.conn.topic(ctx, r.source.Topic)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	r.gone.Store(false)
	r.mu.Lock() // So that no callback comes before the client is known.
	defer r.mu.Unlock()
	client, err = r.conn.dial(r.options(in, detail.partitions)...)
	if err != nil {
		return nil, fmt.Errorf("kafka consumer for %s: %w", r.source.DataCenter, err)
	}
	r.client, r.topic = client, detail
	return client, nil
}

func (r *reader) options(in *handlers.Intake, partitions int) []kgo.Opt {
	r.appetite = newAppetite(r.source.Bytes, partitions)
	all, one := r.appetite.limits()
	session := time.Duration(r.config.SessionTimeout)
	options := []kgo.Opt{
		kgo.WithHooks(r.hooks, r.appetite),
		kgo.ConsumerGroup(r.source.Group),
		kgo.ConsumeTopics(r.source.Topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // What is out of range was cut off: go on with what is left, skip nothing.
		kgo.FetchMaxWait(time.Duration(r.config.FetchMaxWait)),
		kgo.FetchMaxBytes(all),
		kgo.FetchMaxPartitionBytes(one),
		kgo.MaxConcurrentFetches(concurrentFetches),
		kgo.DisableFetchSessions(), // They save little for one topic, and can go on silently with one that was made again.
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(min(session/3, time.Second)), // By its answer a member hears of others that come and go.
		kgo.RebalanceTimeout(max(rebalanceTimeout, session)),
		kgo.OnOffsetsFetched(r.noteOffsets),
		kgo.AdjustFetchOffsetsFn(r.adjustOffsets),
		kgo.OnPartitionsAssigned(func(_ context.Context, c *kgo.Client, given map[string][]int32) {
			r.assigned(in, c, given[r.source.Topic])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			r.revoked(taken[r.source.Topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			r.lost(lost[r.source.Topic])
		}),
	}
	if id := r.instance(); id != "" {
		options = append(options, kgo.InstanceID(id))
	}
	return options
}

// instance is the name under which the group knows this process again after a crash, and gives it its partitions back at once.
func (r *reader) instance() string {
	if r.conn.settings.Instance == "" {
		return ""
	}
	id := strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			return c
		}
		return '_'
	}, r.conn.settings.Instance+"."+r.source.Route)
	return id[:min(len(id), 200)]
}

func (r *reader) assigned(in *handlers.Intake, c *kgo.Client, partitions []int32) {
	r.source.Health.Up()
	if len(partitions) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		l := &assignment{partition: p}
		l.inlet = in.Inlet(name(p), func() { r.resume(c, l) })
		r.lanes[p] = l
		r.inlets[l.inlet] = l
	}
	c.ResumeFetchPartitions(map[string][]int32{r.source.Topic: partitions}) // They may have been paused in an earlier life.
}

// revoked empties lanes before the group gives them to others.
func (r *reader) revoked(partitions []int32) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	r.end(partitions, func(i *handlers.Inlet) {
		if err := i.Drain(ctx); err != nil {
			r.source.Logger.Warn("a lane could not be emptied before it was taken away: what is in flight will be delivered again", "partition", i.Name(), "error", err)
		}
		i.Close()
	})
}

// lost gives up lanes that others may own already.
func (r *reader) lost(partitions []int32) {
	r.end(partitions, func(i *handlers.Inlet) { i.Close() })
}

// end takes lanes out, so that nothing more is offered to them, and ends all of them at the same time.
func (r *reader) end(partitions []int32, how func(*handlers.Inlet)) {
	var inlets []*handlers.Inlet
	r.mu.Lock()
	for _, p := range partitions {
		if l := r.lanes[p]; l != nil {
			inlets = append(inlets, l.inlet)
			delete(r.lanes, p)
		}
	}
	r.turnstile.empty()
	r.mu.Unlock()
	var ending sync.WaitGroup
	for _, i := range inlets {
		ending.Go(func() { how(i) })
	}
	ending.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range inlets {
		delete(r.inlets, i)
	}
}
