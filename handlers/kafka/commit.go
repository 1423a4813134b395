package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/handlers"
)

// commitTimeout bounds one commit, so that a lane that was lost is not held up by a coordinator that does not answer.
const commitTimeout = 5 * time.Second

var errNotInGroup = errors.New("not in the group")

// Commit moves the group's offsets to the end of what is settled. Kafka refuses it from a member that was left behind.
func (r *reader) Commit(ctx context.Context, settled []handlers.Settled) error {
	r.mu.Lock()
	client, note := r.client, noteOf(r.topic)
	if client == nil {
		client = r.leaving
	}
	r.mu.Unlock()
	if client == nil {
		return handlers.Unavailable(errNotInGroup)
	}
	offsets, err := r.offsets(settled)
	if err != nil {
		return err
	}
	if err := r.commit(ctx, client, note, offsets); err != nil {
		return err
	}
	r.source.Health.Up()
	return nil
}

// commit commits offsets, and with each a note about the topic.
func (r *reader) commit(ctx context.Context, client *kgo.Client, note string, offsets map[int32]kgo.EpochOffset) (err error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = &note
			}
		}
		return nil
	})
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{r.source.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, failed error) {
			err = r.commitError(response, failed)
		})
	return err
}

func (r *reader) offsets(settled []handlers.Settled) (map[int32]kgo.EpochOffset, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	offsets := make(map[int32]kgo.EpochOffset, len(settled))
	for _, s := range settled {
		last := s.Records[len(s.Records)-1]
		offset, err := strconv.ParseInt(last.Source.Position, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("commit %s/%s: %w", r.source.Topic, s.Inlet.Name(), err)
		}
		l := r.inlets[s.Inlet]
		if l == nil {
			return nil, handlers.Unavailable(fmt.Errorf("commit %s/%s: %w", r.source.Topic, s.Inlet.Name(), errNotInGroup))
		}
		offsets[l.partition] = kgo.EpochOffset{Epoch: l.term(offset), Offset: offset + 1}
	}
	return offsets, nil
}

// commitError finds the first partition whose offset was not taken. Nothing can be committed for a topic that is gone, nor need it.
func (r *reader) commitError(response *kmsg.OffsetCommitResponse, failed error) error {
	if failed != nil {
		return handlers.Unavailable(fmt.Errorf("commit to group %q: %w", r.source.Group, failed))
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil || isMissing(err) && r.gone.Load() {
				continue
			}
			return handlers.Unavailable(fmt.Errorf("commit %s/%d to group %q: %w", r.source.Topic, p.Partition, r.source.Group, err))
		}
	}
	return nil
}
