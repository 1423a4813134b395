package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/handlers"
)

// A position is committed with a note about the topic that it belongs to: its id and how many partitions it had. So a topic that was deleted
// and made again is told from the old one, and a partition that was added from one in which nothing was read yet.

const notePrefix = "mqferry:"

func noteOf(t found) string {
	return notePrefix + t.id.String() + ":" + strconv.Itoa(t.partitions)
}

// parseNote reads a note, and reports false for what others write there.
func parseNote(s *string) (id string, partitions int, ok bool) {
	if s == nil {
		return "", 0, false
	}
	rest, ok := strings.CutPrefix(*s, notePrefix)
	if !ok {
		return "", 0, false
	}
	id, count, ok := strings.Cut(rest, ":")
	if !ok {
		return "", 0, false
	}
	partitions, err := strconv.Atoi(count)
	return id, partitions, err == nil
}

// offsets is what a group has committed for partitions.
type offsets struct {
	none  []int32 // Nothing.
	stale []int32 // Something of an earlier topic of the same name.
}

// noteOffsets is called by the client with the group's offsets of the partitions that were just assigned.
func (r *reader) noteOffsets(_ context.Context, _ *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fetched = offsets{}
	for _, g := range response.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				id, _, ok := parseNote(p.Metadata)
				switch {
				case p.Offset < 0:
					r.fetched.none = append(r.fetched.none, p.Partition)
				case ok && id != r.topic.id.String():
					r.fetched.stale = append(r.fetched.stale, p.Partition)
				}
			}
		}
	}
	return nil
}

// adjustOffsets is called by the client before it begins to read the partitions that were just assigned.
func (r *reader) adjustOffsets(ctx context.Context, begin map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	r.mu.Lock()
	fetched, topic, client := r.fetched, r.topic, r.client
	r.fetched = offsets{}
	r.mu.Unlock()
	partitions := begin[r.source.Topic]
	for _, p := range fetched.stale {
		partitions[p] = kgo.NewOffset().AtStart()
	}
	if len(fetched.stale) > 0 {
		r.source.Meter.Recreated.Add(1)
		r.source.Logger.Warn("the source topic was deleted and made again: it is read from its beginning", "topic", r.source.Topic)
	}
	if len(fetched.none) == 0 || client == nil || r.fromTheBeginning() {
		return begin, nil
	}
	pinned, err := r.pin(ctx, topic, fetched.none)
	if err != nil {
		return nil, err
	}
	if err := r.commit(ctx, client, noteOf(topic), pinned); err != nil {
		return nil, err
	}
	for p, at := range pinned {
		partitions[p] = kgo.NewOffset().At(at.Offset)
	}
	return begin, nil
}

// fromTheBeginning reports whether partitions without a position are read from their beginning anyway.
func (r *reader) fromTheBeginning() bool {
	return !r.source.Start.Latest && r.source.Start.Time.IsZero()
}

// pin gives each partition without a position the one where the route begins. It is committed at once, not with the first message: else
// what arrives while the route is stopped would lie before a later start. What was added to the topic since is read from its beginning.
func (r *reader) pin(ctx context.Context, topic found, partitions []int32) (map[int32]kgo.EpochOffset, error) {
	known, err := r.knownPartitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	first, err := r.conn.admin.ListStartOffsets(ctx, r.source.Topic)
	if err != nil {
		return nil, fmt.Errorf("first offsets of topic %q: %w", r.source.Topic, err)
	}
	begin, err := r.listed(ctx)
	if err != nil {
		return nil, fmt.Errorf("offsets of topic %q at %s: %w", r.source.Topic, r.source.Start, err)
	}
	pinned := make(map[int32]kgo.EpochOffset, len(partitions))
	for _, p := range partitions {
		from := begin
		if known > 0 && int(p) >= known {
			from = first
		}
		o, ok := from.Lookup(r.source.Topic, p)
		if !ok || o.Err != nil {
			return nil, handlers.Unavailable(fmt.Errorf("offset of %s/%d at %s: %w", r.source.Topic, p, r.source.Start, errors.Join(o.Err)))
		}
		pinned[p] = kgo.EpochOffset{Epoch: -1, Offset: o.Offset}
	}
	return pinned, nil
}

func (r *reader) listed(ctx context.Context) (kadm.ListedOffsets, error) {
	if r.source.Start.Latest {
		return r.conn.admin.ListEndOffsets(ctx, r.source.Topic)
	}
	return r.conn.admin.ListOffsetsAfterMilli(ctx, r.source.Start.Time.UnixMilli(), r.source.Topic)
}

// knownPartitions tells how many partitions the topic had when the group last committed; 0 if it never did.
func (r *reader) knownPartitions(ctx context.Context, topic found) (int, error) {
	committed, err := r.conn.admin.FetchOffsets(ctx, r.source.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, fmt.Errorf("offsets of group %q: %w", r.source.Group, err)
	}
	known := 0
	committed.Each(func(o kadm.OffsetResponse) {
		if id, n, ok := parseNote(&o.Metadata); ok && o.Topic == r.source.Topic && id == topic.id.String() {
			known = max(known, n)
		}
	})
	return known, nil
}
