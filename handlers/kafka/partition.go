package kafka

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// choose gives the partition of r among n. Keep says that the source's partition is to be kept.
func choose(rule Partition, keep bool, r *record.Record, n int) int {
	if keep {
		if p, err := strconv.Atoi(r.Source.Lane); err == nil && p >= 0 && p < n {
			return p
		}
	}
	if r.Key != nil && rule != PartitionSpread {
		return hashed(r.Key, n)
	}
	return hashed(laneName(r.Source), n)
}

// laneName is the same for all messages of a lane, and for every attempt; messages made by middleware share an empty one.
func laneName(s record.Source) []byte {
	b := make([]byte, 0, 64)
	for _, part := range []string{s.DataCenter, s.Topic, s.Lane} {
		b = append(b, part...)
		b = append(b, '/')
	}
	return b
}

// hashed is the Java client's choice for a key.
func hashed(key []byte, n int) int { return int(murmur2(key)&0x7fffffff) % n }

// murmur2 is the 32-bit hash of Austin Appleby's MurmurHash2 with the seed that Kafka uses.
func murmur2(b []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	for i := len(b) - 1; i >= 0; i-- {
		h ^= uint32(b[i]) << (8 * i)
	}
	if len(b) > 0 {
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// codec gives franz-go's name of the codec.
func (c Compression) codec() kgo.CompressionCodec {
	switch c {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

// keyed gives r with the key that the configuration wants.
func (c *DestinationConfig) keyed(r *record.Record) *record.Record {
	if c.Key == nil {
		return r
	}
	out := *r
	out.Key = nil
	if key, ok := c.Key.Fill(r); ok {
		out.Key = []byte(key)
	}
	return &out
}

// keeps decides, once and for all messages, whether they stay in the partition of their number in a topic with so many.
func keeps(ctx context.Context, d handlers.Destination, c *DestinationConfig, topic string, partitions int) (bool, error) {
	rule := c.Partition
	if rule == PartitionKey || rule == PartitionSpread || rule == PartitionAuto && c.Key != nil {
		return false, nil
	}
	if d.SourcePartitions == nil {
		if rule == PartitionKeep {
			return false, handlers.Unroutable(fmt.Errorf("topic %q: partition: keep needs a source with partitions; choose auto, key or spread", topic))
		}
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	n, err := d.SourcePartitions(ctx)
	switch {
	case err != nil:
		return false, handlers.Unavailable(fmt.Errorf("count the partitions of the source: %w", err))
	case n == partitions:
		return true, nil
	case rule == PartitionKeep:
		return false, handlers.Unroutable(fmt.Errorf("topic %q has %d partitions and the source %d: partition: keep needs equally many; add partitions, or choose auto, key or spread", topic, partitions, n))
	}
	d.Logger.Warn("the topics have differently many partitions: messages go by key, not by partition", "topic", topic, "source", n, "destination", partitions)
	return false, nil
}
