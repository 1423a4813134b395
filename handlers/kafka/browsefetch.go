package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

const (
	// browseBytes is how much is asked for at once; Kafka gives one batch at least.
	browseBytes = 1 << 20
	// browseWait is how long Kafka may wait for something to give, where there should be something.
	browseWait = 500 * time.Millisecond
)

// errNothing is that a partition gave nothing where it should have something.
var errNothing = errors.New("the broker gives nothing")

// fetch reads some of a partition from s.next on, and moves that. It does without the client's own consumer, which does not tell when it has passed the end of a partition
// whose last records were compacted away. It fails when nothing came for 10 s.
func (b *browsing) fetch(ctx context.Context, s *stretch) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	var records []*kgo.Record
	err := ctx.Err()
	handlers.Again(ctx, lane.Backoff{Initial: 50 * time.Millisecond, Max: time.Second}, func() bool {
		if records, err = b.attempt(ctx, s); err != nil && ctx.Err() == nil {
			b.places = nil
		}
		return err == nil
	})
	if err != nil {
		return nil, b.failed(fmt.Sprintf("read partition %d at %d of", s.partition, s.next), b.conn.hooks.explain(err))
	}
	return records, nil
}

func (b *browsing) attempt(ctx context.Context, s *stretch) ([]*kgo.Record, error) {
	request, leader, err := b.request(ctx, s)
	if err != nil {
		return nil, err
	}
	answer, err := b.conn.client.Broker(int(leader)).RetriableRequest(ctx, request)
	if err != nil {
		return nil, err
	}
	response := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return nil, err
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return nil, errNothing
	}
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: s.next, IsolationLevel: kgo.ReadCommitted(), Topic: b.topic, Partition: s.partition,
	}, &response.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	switch {
	case errors.Is(fetched.Err, kerr.OffsetOutOfRange) && fetched.LogStartOffset > s.next:
		s.next = fetched.LogStartOffset // Retention took it away.
		return nil, nil
	case fetched.Err != nil:
		return nil, fetched.Err
	case next == s.next:
		return nil, errNothing
	}
	s.next = next
	return fetched.Records, nil
}

// request asks the leader of a partition.
func (b *browsing) request(ctx context.Context, s *stretch) (request *kmsg.FetchRequest, leader int32, err error) {
	if b.places == nil {
		topics, err := b.conn.admin.ListTopics(ctx, b.topic)
		if err != nil {
			return nil, 0, err
		}
		detail := topics[b.topic]
		if detail.Err != nil {
			return nil, 0, detail.Err
		}
		b.places = &detail
	}
	partition := b.places.Partitions[s.partition]
	if partition.Err != nil {
		return nil, 0, partition.Err
	}
	request = kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(browseWait.Milliseconds()), 1, browseBytes
	request.IsolationLevel = 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = b.topic, b.places.ID
	place := kmsg.NewFetchRequestTopicPartition()
	place.Partition, place.FetchOffset, place.PartitionMaxBytes = s.partition, s.next, browseBytes
	topic.Partitions = append(topic.Partitions, place)
	request.Topics = append(request.Topics, topic)
	return request, partition.Leader, nil
}
