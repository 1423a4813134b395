package redisstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

const (
	// browseTimeout is how long the server may take for a page; an entry may be large, and the link slow.
	browseTimeout = 30 * time.Second
	// pageBytes is how many bytes Next gives at most, if entries are like those before.
	pageBytes = 4 << 20
	// removeChunk is how many entries one XDEL names.
	removeChunk = 1000
	// browseRights are what a look, and a removal, need of an ACL.
	browseRights = "+xrange +xrevrange +xdel"
)

var (
	_ handlers.Browser[DestinationConfig]     = (*connection)(nil)
	_ handlers.PoisonQueue[DestinationConfig] = DestinationConfig{}
)

// Browse looks through a stream up to its last entry as it is now. No group is made or used: groups that there are do not notice, but for entries that are removed.
func (c *connection) Browse(ctx context.Context, d handlers.Destination, _ DestinationConfig) (handlers.Browsing, error) {
	options := c.options(1)
	options.ReadTimeout = browseTimeout
	b := &browsing{connection: c, client: redis.NewClient(options), stream: d.Topic, batch: newBatch(mostBatch, 8*pageBytes)}
	last, err := b.entries(ctx, "XREVRANGE", "+", "-", 1)
	if err != nil {
		return nil, errors.Join(b.wrap("look through", err), b.client.Close())
	}
	if len(last) == 0 {
		b.over = true
	} else {
		b.last = last[0].id
	}
	return b, nil
}

// browsing is a look through a stream.
type browsing struct {
	connection *connection
	client     *redis.Client
	stream     string
	next, last entryID // What is read next, and what is read last.
	over       bool
	batch      batch
}

// Next gives the next entries, up to n. Next may be called again after an error.
func (b *browsing) Next(ctx context.Context, n int) ([]*record.Record, error) {
	if b.over {
		return nil, nil
	}
	entries, err := b.entries(ctx, "XRANGE", b.next.String(), b.last.String(), min(n, b.batch.count()))
	if err != nil {
		return nil, b.wrap("look through", err)
	}
	if len(entries) == 0 {
		b.over = true
		return nil, nil
	}
	b.next = entries[len(entries)-1].id.after()
	b.over = b.last.less(b.next)
	records := make([]*record.Record, len(entries))
	place := record.Source{DataCenter: b.connection.settings.DataCenter, Topic: b.stream}
	for i, e := range entries {
		records[i] = decode(place, e.id, e.fields)
	}
	return records, nil
}

func (b *browsing) entries(ctx context.Context, command, from, to string, n int) ([]entry, error) {
	reply, err := b.client.Do(ctx, command, b.stream, from, to, "COUNT", n).Result()
	if err != nil {
		return nil, err
	}
	// XREADGROUP's answer is a list of such answers, each with its stream's name.
	entries, bytes, ok := parseEntries([]any{[]any{b.stream, reply}})
	if !ok {
		return nil, fmt.Errorf("the server's answer has a form that %s never gives", command)
	}
	b.batch.learn(len(entries), bytes)
	return entries, nil
}

// Remove deletes the entries. When it returns nil the server has done so; that a server, or a replica of it, still knows after a crash depends on its append-only
// file, as with all that it confirms: an entry that is there again was not lost.
func (b *browsing) Remove(ctx context.Context, records []*record.Record) error {
	ids := make([]any, len(records))
	for i, r := range records {
		if _, ok := parseID(r.Source.Position); !ok {
			return fmt.Errorf("take an entry out of stream %q: it was not read there", b.stream)
		}
		ids[i] = r.Source.Position
	}
	for len(ids) > 0 {
		n := min(len(ids), removeChunk)
		if err := b.client.Do(ctx, append([]any{"XDEL", b.stream}, ids[:n]...)...).Err(); err != nil {
			return b.wrap("take entries out of", err)
		}
		ids = ids[n:]
	}
	return nil
}

// Close ends the look.
func (b *browsing) Close() error { return b.client.Close() }

func (b *browsing) wrap(doing string, err error) error {
	err = b.connection.current().permit(err, "~"+b.stream, browseRights)
	err = fmt.Errorf("%s stream %s/%s: %w", doing, b.connection.settings.DataCenter, b.stream, err)
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return handlers.Unroutable(err)
	}
	return handlers.Unavailable(err)
}
