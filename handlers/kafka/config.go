package kafka

import (
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/record"
)

// Config is what a user may write about a Kafka cluster.
type Config struct {
	// Brokers are the addresses to begin with, each host:port; the client learns the others from them. At least one is needed.
	Brokers []string `yaml:"brokers"`
	// ClientID is the name that Kafka's own metrics and quotas know this process by; "mqferry" by default.
	ClientID string `yaml:"client_id"`
	// DialTimeout bounds the wait for a connection, TLS's handshake included; 10s by default.
	DialTimeout config.Duration `yaml:"dial_timeout"`
	// TLS encrypts all connections and says whom to trust; nil, the default, means that they are not encrypted.
	TLS *config.TLS `yaml:"tls"`
	// SASL says who we are; nil, the default, means that the brokers do not ask.
	SASL *SASL `yaml:"sasl"`
	// Client is pipelined, the default, or watermill: the stock package, one message of a partition at a time.
	Client Client `yaml:"client"`
}

// Client says what reads and writes the topics.
type Client string

// The clients.
const (
	// Pipelined is our own, on franz-go: thousands of messages in flight.
	Pipelined Client = "pipelined"
	// Watermill is the stock watermill-kafka, on sarama.
	Watermill Client = "watermill"
)

// Words lists the clients.
func (Client) Words() []string { return []string{string(Pipelined), string(Watermill)} }

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
	// Key is filled for each message and becomes its key, such as "{header.customer}"; nil, the default, leaves the key that it has. A message that
	// lacks what a placeholder stands for has no key.
	Key *record.Template `yaml:"key"`
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
	// TopicConfig is the configuration of a topic that is created, such as {cleanup.policy: compact}; empty by default.
	TopicConfig map[string]string `yaml:"topic_config"`
}

// Partition is a rule that chooses the partition of a message.
type Partition string

// The rules. A message without a key that is not kept in its partition goes to one that depends on its lane alone, so that the
// lane stays in order.
const (
	// PartitionAuto keeps the source's partition where both topics have equally many and the key is the message's own, and otherwise goes by key.
	PartitionAuto Partition = "auto"
	// PartitionKeep keeps the source's partition, and publishes nothing while the topics have differently many.
	PartitionKeep Partition = "keep"
	// PartitionKey hashes the key as the Java client does.
	PartitionKey Partition = "key"
	// PartitionSpread goes by lane, whatever the key: all of a lane's messages are in one partition, in order.
	PartitionSpread Partition = "spread"
)

// Words lists the rules.
func (Partition) Words() []string { return []string{"auto", "keep", "key", "spread"} }

// Compression is the codec of a destination's batches.
type Compression string

// Words lists the codecs.
func (Compression) Words() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

const defaultLinger = config.Duration(5 * time.Millisecond)

// DefaultConfig returns what applies where a file says nothing.
func DefaultConfig() (Config, SourceConfig, DestinationConfig) {
	return Config{ClientID: "mqferry", DialTimeout: config.Duration(10 * time.Second), Client: Pipelined},
		SourceConfig{
			FetchMaxWait:   config.Duration(100 * time.Millisecond),
			SessionTimeout: config.Duration(30 * time.Second),
		},
		DestinationConfig{
			Partition: PartitionAuto, Compression: "none", Linger: defaultLinger,
			Create: true, Partitions: -1, ReplicationFactor: -1,
		}
}
