package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	watermill "github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	watermillmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// sendChunk is how many messages are sent, or read, at a time.
const sendChunk = 1000

// Redis is a Redis stream: one lane.
type Redis struct {
	site, stream string
	reached      string // For the ferry.
	lease        string
	size         int
	client       *redis.Client
}

// NewRedis makes a new stream on the broker.
func NewRedis(t testing.TB, site string, b *brokers.Broker) *Redis {
	t.Helper()
	r := &Redis{site: site, stream: uniqueName("orders"), reached: b.Address(), size: payloadSize}
	r.client = redis.NewClient(&redis.Options{Addr: b.Address(), MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 30 * time.Second})
	t.Cleanup(func() { _ = r.client.Close() })
	return r
}

// Through lets the ferry reach the broker at another address, such as that of a link; the test itself goes the straight way.
func (r *Redis) Through(address string) *Redis {
	r.reached = address
	return r
}

// Lease sets the source's option lease: how long a ferry waits for one that was killed.
func (r *Redis) Lease(lease string) { r.lease = lease }

// Site is the name of the data center, and its broker as a config file describes it.
func (r *Redis) Site() (name, broker string) {
	return r.site, fmt.Sprintf("redis: {address: %q}", r.reached)
}

// Topic is the name of the stream.
func (r *Redis) Topic() string { return r.stream }

// Lanes is 1: a stream is one lane.
func (r *Redis) Lanes() int { return 1 }

// Payloads sets the size of the payloads from now on, 1 KB otherwise.
func (r *Redis) Payloads(size int) { r.size = size }

func (r *Redis) options() string {
	if r.lease == "" {
		return ""
	}
	return ", lease: " + r.lease
}

// make gives three of four messages the format of watermill-redisstream, and the others any fields. On the way to a Kafka with several partitions the
// key decides the order that is kept, so there the keys are the lanes of the ledger.
func (r *Redis) make(i int, route string, to End) *message {
	m := &message{lane: "stream", seq: uint64(i), foreign: i%4 == 3}
	var key []byte
	if group := i % 4; group < 2 {
		key = []byte{'k', 0xff, byte(group)}
	}
	if k, ok := to.(*Kafka); ok && k.partitions > 1 {
		switch i % 4 {
		case 0, 1:
			m.lane, m.seq = "key "+strconv.Itoa(i%4), uint64(i/4)
		default:
			m.lane, m.seq = "no key", uint64(i/4*2+i%4-2)
		}
	}
	if m.foreign {
		m.beForeign(r.size)
	} else {
		m.beWatermill(fmt.Sprintf("%s-%d", route, i), key, r.size)
	}
	m.record.Source = record.Source{DataCenter: r.site, Topic: r.stream}
	return m
}

// beForeign makes the message an entry of somebody who knows nothing of Watermill; half of them have no field called payload.
func (m *message) beForeign(size int) {
	fields := []string{"z", "1", laneHeader, m.lane, seqHeader, strconv.FormatUint(m.seq, 10), "a", "\x00\xff", "z", "2"}
	if m.seq%2 == 0 {
		fields = append(fields, "payload", string(m.payload(size)), "last", "")
	}
	m.record = record.UnfoldFields(fields)
	for _, field := range fields {
		m.fields = append(m.fields, field)
	}
}

// beWatermill makes the message an entry as the stock package writes it, by that package. Its metadata is a map, so its headers are sorted.
func (m *message) beWatermill(id string, key []byte, size int) {
	headers := append([]record.Header{{Key: "a", Value: []byte("\x00\xff")}}, m.place()...)
	m.record = &record.Record{ID: id, Key: key, Value: m.payload(size), Headers: headers}
	out := watermillmessage.NewMessage(id, m.record.Value)
	for _, h := range headers {
		out.Metadata[h.Key] = string(h.Value)
	}
	if key != nil {
		out.Metadata[record.KeyEntry] = string(key)
	}
	if m.record.Value == nil {
		out.Metadata[record.NullEntry] = "1"
	}
	values, err := watermill.DefaultMarshallerUnmarshaller{}.Marshal("", out)
	if err != nil {
		panic(err) // It fails for metadata that this function does not set.
	}
	for name, value := range values {
		m.fields = append(m.fields, name, value)
	}
}

func (r *Redis) send(ctx context.Context, messages []*message) error {
	for len(messages) > 0 {
		chunk := messages[:min(sendChunk, len(messages))]
		messages = messages[len(chunk):]
		pipe := r.client.Pipeline()
		ids := make([]*redis.StringCmd, len(chunk))
		for i, m := range chunk {
			ids[i] = pipe.XAdd(ctx, &redis.XAddArgs{Stream: r.stream, Values: m.fields})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("add to %s: %w", r.stream, err)
		}
		for i, m := range chunk {
			m.record.Source.Position = ids[i].Val()
			m.record.Time = timeOf(ids[i].Val())
		}
	}
	return nil
}

// timeOf is the time in the id of an entry.
func timeOf(id string) time.Time {
	text, _, _ := strings.Cut(id, "-")
	milliseconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds)
}

// expected is the message as it was, with an id in any case; only an entry of any fields arrives at a stream with exactly these, which have no place for
// id and time.
func (r *Redis) expected(m *message, to End) *record.Record {
	if _, stream := to.(*Redis); !m.foreign || !stream {
		return identified(m.record)
	}
	out := *m.record
	out.Time = time.Time{}
	return &out
}

func (r *Redis) count(ctx context.Context) (int, error) {
	n, err := r.client.XLen(ctx, r.stream).Result()
	return int(n), err
}

func (r *Redis) read(ctx context.Context, _ End, each func(*record.Record)) error {
	from := "-"
	for {
		// Not XRange of the client: its fields are a map, without order and repeats.
		answer, err := r.client.Do(ctx, "XRANGE", r.stream, from, "+", "COUNT", sendChunk).Slice()
		if err != nil {
			return fmt.Errorf("read %s: %w", r.stream, err)
		}
		for _, entry := range answer {
			id, fields := entryOf(entry)
			from = "(" + id
			out, err := unfold(fields)
			if err != nil {
				return fmt.Errorf("entry %s of %s: %w", id, r.stream, err)
			}
			each(out)
		}
		if len(answer) < sendChunk {
			return nil
		}
	}
}

func entryOf(answer any) (id string, fields []string) {
	pair := answer.([]any)
	for _, field := range pair[1].([]any) {
		fields = append(fields, field.(string))
	}
	return pair[0].(string), fields
}

// unfold reads an entry as an application on the stock package would, and then what is declared in it.
func unfold(fields []string) (*record.Record, error) {
	values := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	if _, ok := values[record.IDKey]; !ok {
		return record.UnfoldFields(fields), nil
	}
	m, err := watermill.DefaultMarshallerUnmarshaller{}.Unmarshal(values)
	if err != nil {
		return nil, err
	}
	return record.Unfold(m.UUID, m.Metadata, m.Payload), nil
}

func (r *Redis) unacked(ctx context.Context, group string) (string, error) {
	last, err := r.client.XRevRangeN(ctx, r.stream, "+", "-", 1).Result()
	if err != nil {
		return "", fmt.Errorf("the last entry of %s: %w", r.stream, err)
	}
	groups, err := r.client.XInfoGroups(ctx, r.stream).Result()
	if err != nil || len(last) == 0 {
		return fmt.Sprintf("%s does not exist yet: %v", r.stream, err), nil
	}
	for _, g := range groups {
		switch {
		case g.Name != group:
			continue
		case g.Pending > 0:
			return fmt.Sprintf("group %s has %d pending entries in %s", group, g.Pending, r.stream), nil
		case g.LastDeliveredID != last[0].ID:
			return fmt.Sprintf("group %s has read %s up to %s, which ends at %s", group, r.stream, g.LastDeliveredID, last[0].ID), nil
		}
		return "", nil
	}
	return fmt.Sprintf("group %s does not exist yet", group), nil
}
