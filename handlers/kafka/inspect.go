package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mqferry/mqferry/handlers"
)

var (
	_ handlers.Inspector[SourceConfig, DestinationConfig] = (*Connection)(nil)
	_ handlers.Partitioned                                = (*Connection)(nil)
)

// InspectSource tells how many partitions the topic has and where the group stands. It is an error when there is no such topic.
func (c *Connection) InspectSource(ctx context.Context, s handlers.Source, _ SourceConfig) (string, error) {
	detail, err := c.topic(ctx, s.Topic)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	offsets, err := c.admin.FetchOffsets(ctx, s.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return "", handlers.Unavailable(fmt.Errorf("offsets of group %q: %w", s.Group, err))
	}
	ends, err := c.admin.ListEndOffsets(ctx, s.Topic)
	if err != nil {
		return "", handlers.Unavailable(fmt.Errorf("end offsets of topic %q: %w", s.Topic, err))
	}
	known, behind := 0, int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		if at, ok := offsets.Lookup(s.Topic, end.Partition); ok && at.At >= 0 {
			known++
			behind += end.Offset - at.At
		}
	})
	if known == 0 {
		return fmt.Sprintf("topic %q: %d partitions, group %q has no position and begins at %s", s.Topic, detail.partitions, s.Group, s.Start), nil
	}
	return fmt.Sprintf("topic %q: %d partitions, group %q has a position in %d of them and is %d messages behind", s.Topic, detail.partitions, s.Group, known, behind), nil
}

// InspectDestination tells what the topic takes, or that it would be made. It is an error when it is missing and is not to be made.
func (c *Connection) InspectDestination(ctx context.Context, d handlers.Destination, o DestinationConfig) (string, error) {
	if d.Template != nil {
		return fmt.Sprintf("topic %q: depends on the message; %s", d.Topic, o.missing()), nil
	}
	detail, err := c.topic(ctx, d.Topic)
	switch {
	case errors.Is(err, errNoTopic) && o.Create:
		return fmt.Sprintf("topic %q: would be created with %s", d.Topic, o.creation()), nil
	case err != nil:
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	configs, err := c.admin.DescribeTopicConfigs(ctx, d.Topic)
	if err != nil || len(configs) == 0 || configs[0].Err != nil {
		return fmt.Sprintf("topic %q: %d partitions, its limits cannot be read", d.Topic, detail.partitions), nil
	}
	limit, compacted := limits(configs[0])
	text := fmt.Sprintf("topic %q: %d partitions, records up to %d bytes", d.Topic, detail.partitions, limit)
	if compacted {
		text += ", compacted: each needs a key"
	}
	return text, nil
}

// missing tells what becomes of topics that are missing.
func (c *DestinationConfig) missing() string {
	if !c.Create {
		return "none is created"
	}
	return "missing ones are created with " + c.creation()
}

// creation tells what a topic is created with.
func (c *DestinationConfig) creation() string {
	text := fmt.Sprintf("%s partitions and replication factor %s", orDefault(int(c.Partitions)), orDefault(int(c.ReplicationFactor)))
	for _, name := range slices.Sorted(maps.Keys(c.TopicConfig)) {
		text += fmt.Sprintf(", %s=%s", name, c.TopicConfig[name])
	}
	return text
}

func orDefault(n int) string {
	if n < 0 {
		return "the cluster's default"
	}
	return strconv.Itoa(n)
}
