package redisstream

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
)

// InspectSource tells what is at the source: the entries, the group's position, and what is pending in it.
func (c *connection) InspectSource(ctx context.Context, s handlers.Source, _ SourceConfig) (string, error) {
	length, err := c.length(ctx, s.Topic)
	if err != nil {
		return "", err
	}
	groups, err := c.client.XInfoGroups(ctx, s.Topic).Result()
	if err != nil && !noSuchKey(err) {
		return "", c.wrap("inspect", s.Topic, err)
	}
	for _, g := range groups {
		if g.Name == s.Group {
			return fmt.Sprintf("stream with %d entries, group %q stands at %s with %d pending", length, s.Group, g.LastDeliveredID, g.Pending), nil
		}
	}
	return fmt.Sprintf("%s, group %q would be created at %s", described(length), s.Group, s.Start), nil
}

// InspectDestination tells what is at the destination, and fails when the server cannot confirm as the options ask for.
func (c *connection) InspectDestination(ctx context.Context, d handlers.Destination, o DestinationConfig) (string, error) {
	p := newPublisher(c, d, o)
	w, err := p.open(ctx)
	if err != nil {
		return "", handlers.Unavailable(err)
	}
	w.end(nil)
	if d.Template != nil {
		return fmt.Sprintf("streams named %q: the first message for one creates it", d.Topic), nil
	}
	length, err := c.length(ctx, d.Topic)
	if err != nil {
		return "", err
	}
	return described(length), nil
}

func described(length int64) string {
	if length < 0 {
		return "stream that does not exist yet: the first message creates it"
	}
	return fmt.Sprintf("stream with %d entries", length)
}

// length counts the entries of a stream; -1 when there is none. Another type of key under its name is an error.
func (c *connection) length(ctx context.Context, stream string) (int64, error) {
	n, err := c.client.XLen(ctx, stream).Result()
	if err != nil {
		return 0, c.wrap("inspect", stream, err)
	}
	if n > 0 {
		return n, nil
	}
	exists, err := c.client.Exists(ctx, stream).Result()
	if err != nil {
		return 0, c.wrap("inspect", stream, err)
	}
	return exists - 1, nil
}

func (c *connection) wrap(doing, stream string, err error) error {
	err = c.current().permit(err, "~"+stream, inspectionRights)
	err = fmt.Errorf("%s stream %s/%s: %w", doing, c.settings.DataCenter, stream, err)
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return handlers.Unroutable(err)
	}
	return handlers.Unavailable(err)
}

// noSuchKey is what XINFO says of a stream that is not there; the protocol has no code for it.
func noSuchKey(err error) bool { return redis.HasErrorPrefix(err, "no such key") }
