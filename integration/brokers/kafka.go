package brokers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/integration/process"
)

const kafkaVersion = "4.1.0"

// kafka is a single node of Kafka in KRaft mode from the jars that install.sh fetches.
type kafka struct{ settings []string }

func (kafka) kind() string { return "kafka" }

func (k kafka) given(address string) (software, string, error) { return k, address, nil }

func (kafka) missing() error {
	if !process.Supported {
		return fmt.Errorf("kafka: %w: brokers are started on Linux only", errMissing)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("java for kafka: %w", errMissing)
	}
	libs := kafkaLibs()
	if found, _ := filepath.Glob(filepath.Join(libs, "kafka_*.jar")); len(found) == 0 {
		return fmt.Errorf("the jars of kafka in %q: %w", libs, errMissing)
	}
	return nil
}

// kafkaLibs is the folder that install.sh fills.
func kafkaLibs() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "mqferry", "kafka-"+kafkaVersion)
}

func (k kafka) prepare(dir string, p ports) error {
	if err := os.WriteFile(propertiesFile(dir), []byte(k.properties(dir, p)), 0o600); err != nil {
		return err
	}
	arguments := java("-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool",
		"format", "-t", clusterID(), "-c", propertiesFile(dir))
	if output, err := exec.Command("java", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("format its storage: %w: %s", err, output)
	}
	return nil
}

func (kafka) command(dir string, _ ports) (string, []string) {
	return "java", java("-Xms256m", "-Xmx512m", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "kafka.Kafka", propertiesFile(dir))
}

func java(arguments ...string) []string {
	return append([]string{"-cp", filepath.Join(kafkaLibs(), "*")}, arguments...)
}

func propertiesFile(dir string) string { return filepath.Join(dir, "server.properties") }

// clusterID is 128 random bits in Kafka's spelling; it begins with a letter so that it is not taken for an option.
func clusterID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	id[0] &= 0x3f
	return base64.RawURLEncoding.EncodeToString(id)
}

// properties is the node's configuration. A Kafka client always comes back to the advertised address, so a link before the
// plain listener would be bypassed: the listener LINK advertises the port where the link listens.
func (k kafka) properties(dir string, p ports) string {
	lines := []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + address(p.internal),
		"controller.listener.names=CONTROLLER",
		fmt.Sprintf("listeners=CLIENT://%s,CONTROLLER://%s,LINK://%s",
			address(p.client), address(p.internal), address(p.behindLink)),
		fmt.Sprintf("advertised.listeners=CLIENT://%s,LINK://%s", address(p.client), address(p.link)),
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT,LINK:PLAINTEXT",
		"inter.broker.listener.name=CLIENT",
		"log.dirs=" + filepath.Join(dir, "logs"),
		"num.partitions=4",
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=4",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		// A killed node may register again only when its session has ended, and a killed consumer's partitions are given
		// away only then: both within a test's patience.
		"broker.session.timeout.ms=4000",
		"broker.heartbeat.interval.ms=500",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=1000",
	}
	return strings.Join(append(lines, k.settings...), "\n") + "\n"
}

func (kafka) behindLink(p ports) int { return p.behindLink }

// ping asks for the cluster's brokers: the node is in the list once the controller lets it serve.
func (kafka) ping(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RetryTimeout(pingTimeout), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none: nil would ask for all
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if len(answer.Brokers) == 0 {
		return errors.New("the node does not serve yet")
	}
	return nil
}
