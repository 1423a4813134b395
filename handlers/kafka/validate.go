package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

var (
	_ handlers.SourceChecker[SourceConfig]           = Config{}
	_ handlers.DestinationChecker[DestinationConfig] = Config{}
)

// Validate reports missing and malformed addresses, and words that are not in their lists.
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
	return errors.Join(append(errs, oneOf("client", c.Client))...)
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

// Validate reports words that are not in their lists, numbers out of range, and options that have no effect.
func (c DestinationConfig) Validate() error {
	errs := []error{oneOf("partition", c.Partition), oneOf("compression", c.Compression)}
	if c.Linger > config.Duration(time.Second) {
		errs = append(errs, config.Invalid("linger", "%s is more than 1s", c.Linger))
	}
	if c.Partitions != -1 && c.Partitions < 1 {
		errs = append(errs, config.Invalid("partitions", "%d is neither -1 (the cluster's default) nor at least 1", c.Partitions))
	}
	if c.ReplicationFactor != -1 && c.ReplicationFactor < 1 {
		errs = append(errs, config.Invalid("replication_factor", "%d is neither -1 (the cluster's default) nor at least 1", c.ReplicationFactor))
	}
	if len(c.TopicConfig) > 0 && !c.Create && !maps.Equal(c.TopicConfig, c.ForPoison().TopicConfig) {
		errs = append(errs, config.Invalid("topic_config", "is for topics that are made, and create is false"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.TopicConfig)) {
		if name == "" {
			errs = append(errs, config.Invalid("topic_config", "has an empty name"))
		}
	}
	return errors.Join(errs...)
}

// oneOf reports a word that is not in its list.
func oneOf[W interface {
	~string
	Words() []string
}](field string, word W,
) error {
	if slices.Contains(word.Words(), string(word)) {
		return nil
	}
	return config.Invalid(field, "%q is not one of %s", string(word), strings.Join(word.Words(), ", "))
}

// CheckSource reports a topic that cannot be, and what the stock client cannot do.
func (c Config) CheckSource(s config.Source, _ SourceConfig) error {
	var errs []error
	if s.Topic != "" {
		errs = append(errs, topicField(s.Topic))
	}
	return errors.Join(append(errs, c.checkStockSource(s))...)
}

// CheckDestination is the same for a destination.
func (c Config) CheckDestination(d config.Destination, o DestinationConfig) error {
	var errs []error
	if t, err := record.ParseTemplate(d.Topic); err == nil { // Otherwise it is reported elsewhere.
		if topic, literal := t.Literal(); literal && topic != "" {
			errs = append(errs, topicField(topic))
		}
	}
	return errors.Join(append(errs, c.checkStockDestination(o))...)
}

func topicField(topic string) error {
	if err := checkTopic(topic); err != nil {
		return config.Invalid("topic", "%w", err)
	}
	return nil
}

// longestTopic is how long Kafka lets the name of a topic be.
const longestTopic = 249

// checkTopic reports a name that Kafka takes for no topic.
func checkTopic(name string) error {
	legal := name != "" && name != "." && name != ".." && len(name) <= longestTopic
	for i := 0; i < len(name) && legal; i++ {
		c := name[i]
		legal = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if legal {
		return nil
	}
	return fmt.Errorf("%q cannot be a topic of Kafka: use up to %d of a-z, A-Z, 0-9, \".\", \"_\" and \"-\"", name, longestTopic)
}
