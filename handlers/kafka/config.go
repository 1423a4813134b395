package kafka

import (
	"errors"
	"time"

	"github.com/mqferry/mqferry/config"
)

// Config is what a user may write about a Kafka cluster.
type Config struct {
	// Brokers are the addresses to begin with, each host:port; the client learns the others from them. At least one is needed.
	Brokers []string `yaml:"brokers"`
	// ClientID is the name that Kafka's own metrics and quotas know this process by; "mqferry" by default.
	ClientID string `yaml:"client_id"`
	// DialTimeout bounds the wait for a connection; 10s by default.
	DialTimeout config.Duration `yaml:"dial_timeout"`
}

// SourceConfig is what a user may write about a topic that messages are fetched from.
type SourceConfig struct {
	// FetchMaxWait is how long a broker may hold back an answer that would be empty; 100ms by default.
	FetchMaxWait config.Duration `yaml:"fetch_max_wait"`
	// SessionTimeout is after how long without a sign of life the group gives this process's partitions to others; 30s by default. A
	// process that comes back under the same instance name has them back at once.
	SessionTimeout config.Duration `yaml:"session_timeout"`
}

// DestinationConfig is what a user may write about a topic that messages are delivered to.
type DestinationConfig struct {
	// Partition is the rule that chooses the partition; PartitionAuto by default.
	Partition Partition `yaml:"partition"`
	// Compression is none, gzip, snappy, lz4 or zstd; none by default.
	Compression Compression `yaml:"compression"`
	// Linger is how long a record waits for others to share its batch; 5ms by default.
	Linger config.Duration `yaml:"linger"`
	// Create makes a topic that does not exist; true by default.
	Create bool `yaml:"create"`
	// Partitions of a topic that is created; -1, the default, means the cluster's own default.
	Partitions int32 `yaml:"partitions"`
	// ReplicationFactor of a topic that is created; -1, the default, means the cluster's own default.
	ReplicationFactor int16 `yaml:"replication_factor"`
}

// Partition is a rule that chooses the partition of a message.
type Partition string

// The rules. A message without a key that is not kept in its partition goes to one that depends on its lane alone, so that the
// lane stays in order.
const (
	// PartitionAuto keeps the source's partition where both topics have equally many, and otherwise goes by key.
	PartitionAuto Partition = "auto"
	// PartitionKeep keeps the source's partition, and publishes nothing while the topics have differently many.
	PartitionKeep Partition = "keep"
	// PartitionKey hashes the key as the Java client does.
	PartitionKey Partition = "key"
	// PartitionSpread goes by lane, whatever the key: all of a lane's messages are in one partition, in order.
	PartitionSpread Partition = "spread"
)

// Compression is the codec of a destination's batches.
type Compression string

// DefaultConfig returns what applies where a file says nothing.
func DefaultConfig() (Config, SourceConfig, DestinationConfig) {
	return Config{ClientID: "mqferry", DialTimeout: config.Duration(10 * time.Second)},
		SourceConfig{
			FetchMaxWait:   config.Duration(100 * time.Millisecond),
			SessionTimeout: config.Duration(30 * time.Second),
		},
		DestinationConfig{
			Partition: PartitionAuto, Compression: "none", Linger: config.Duration(5 * time.Millisecond),
			Create: true, Partitions: -1, ReplicationFactor: -1,
		}
}

// Validate reports missing and malformed addresses.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, config.Invalid("brokers", `is missing; write for example ["127.0.0.1:9092"]`))
	}
	for _, address := range c.Brokers {
		errs = append(errs, config.CheckAddress("brokers", address, "127.0.0.1:9092"))
	}
	if c.DialTimeout <= 0 {
		errs = append(errs, config.Invalid("dial_timeout", "must be more than 0"))
	}
	return errors.Join(errs...)
}

// Validate reports times that Kafka does not accept.
func (c SourceConfig) Validate() error {
	var errs []error
	if c.FetchMaxWait < config.Duration(time.Millisecond) || c.FetchMaxWait > config.Duration(5*time.Second) {
		errs = append(errs, config.Invalid("fetch_max_wait", "%s is not between 1ms and 5s", c.FetchMaxWait))
	}
	if c.SessionTimeout < config.Duration(time.Second) || c.SessionTimeout > config.Duration(5*time.Minute) {
		errs = append(errs, config.Invalid("session_timeout", "%s is not between 1s and 5m", c.SessionTimeout))
	}
	return errors.Join(errs...)
}

// Validate reports words that are not in their lists, and numbers out of range.
func (c DestinationConfig) Validate() error {
	var errs []error
	switch c.Partition {
	case PartitionAuto, PartitionKeep, PartitionKey, PartitionSpread:
	default:
		errs = append(errs, config.Invalid("partition", "%q is not one of auto, keep, key, spread", c.Partition))
	}
	if _, err := c.Compression.codec(); err != nil {
		errs = append(errs, config.Invalid("compression", "%w", err))
	}
	if c.Linger > config.Duration(time.Second) {
		errs = append(errs, config.Invalid("linger", "%s is more than 1s", c.Linger))
	}
	if c.Partitions != -1 && c.Partitions < 1 {
		errs = append(errs, config.Invalid("partitions", "%d is neither -1 (the cluster's default) nor at least 1", c.Partitions))
	}
	if c.ReplicationFactor != -1 && c.ReplicationFactor < 1 {
		errs = append(errs, config.Invalid("replication_factor", "%d is neither -1 (the cluster's default) nor at least 1", c.ReplicationFactor))
	}
	return errors.Join(errs...)
}
