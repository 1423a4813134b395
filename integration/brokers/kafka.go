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
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/mqferry/mqferry/integration/process"
)

const kafkaVersion = "4.1.0"

// kafka is a single node of Kafka in KRaft mode from the jars that install.sh fetches.
type kafka struct {
	settings []string
	security Security
}

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

func (k kafka) secured(demands Security) software {
	k.security = demands
	return k
}

func (k kafka) prepare(dir string, p ports) error {
	if err := k.security.write(dir); err != nil {
		return err
	}
	if err := os.WriteFile(propertiesFile(dir), []byte(k.properties(dir, p)), 0o600); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dataFolder(dir), "meta.properties")); err == nil {
		return nil // formatted already
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

func dataFolder(dir string) string { return filepath.Join(dir, "logs") }

// clusterID is 128 random bits in Kafka's spelling; it begins with a letter so that it is not taken for an option.
func clusterID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	id[0] &= 0x3f
	return base64.RawURLEncoding.EncodeToString(id)
}

// properties is the node's configuration. A Kafka client always comes back to the advertised address, so a link before the
// listener CLIENT would be bypassed: the listener LINK advertises the port where the link listens. What a secured node demands
// it demands at these two; to itself it speaks plainly.
func (k kafka) properties(dir string, p ports) string {
	lines := []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + address(p.control),
		"controller.listener.names=CONTROLLER",
		fmt.Sprintf("listeners=CLIENT://%s,LINK://%s,INTERNAL://%s,CONTROLLER://%s",
			address(p.client), address(p.behindLink), address(p.internal), address(p.control)),
		fmt.Sprintf("advertised.listeners=CLIENT://%s,LINK://%s,INTERNAL://%s",
			address(p.client), address(p.link), address(p.internal)),
		fmt.Sprintf("listener.security.protocol.map=CLIENT:%[1]s,LINK:%[1]s,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT", k.protocol()),
		"inter.broker.listener.name=INTERNAL",
		"log.dirs=" + dataFolder(dir),
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
	lines = append(lines, k.demands(dir)...)
	return strings.Join(append(lines, k.settings...), "\n") + "\n"
}

func (kafka) behindLink(p ports) int { return p.behindLink }

// ping asks for the cluster's brokers: the node is in the list once the controller lets it serve.
func (k kafka) ping(ctx context.Context, address string) error {
	// The password of PLAIN is in the configuration: it is known before settle has been there.
	return k.pingAs(ctx, address, plain.Auth{User: k.security.User.Name, Pass: k.security.User.Password}.AsMechanism())
}

func (k kafka) pingAs(ctx context.Context, address string, login sasl.Mechanism) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(address), kgo.RetryTimeout(pingTimeout), kgo.DisableClientMetrics()}
	if k.security.user() {
		options = append(options, kgo.SASL(login))
	}
	config, err := k.security.pingConfig()
	if err != nil {
		return err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	client, err := kgo.NewClient(options...)
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
