package kafka_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

func template(t *testing.T, text string) *record.Template {
	t.Helper()
	parsed, err := record.ParseTemplate(text)
	require.NoError(t, err)
	return &parsed
}

// byHeader sends each message to the topic that its header names.
func byHeader(t *testing.T, prefix string) option {
	return func(d *handlers.Destination, _ *kafka.DestinationConfig) {
		d.Topic = prefix + "{header.to}"
		d.Template = template(t, d.Topic)
	}
}

func to(topic string, value []byte) *record.Record {
	return &record.Record{Value: value, Headers: []record.Header{{Key: "to", Value: []byte(topic)}}}
}

func TestATemplateMakesTheKeyAndTheKeyThePartition(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(4, "out"))
	f := newFerry(t, w.address(), "out", rule(kafka.PartitionAuto, 4), func(_ *handlers.Destination, c *kafka.DestinationConfig) {
		c.Key = template(t, "{header.customer}/{key}")
	})
	for i := range 40 {
		f.site.Produce("in", i%4, &record.Record{
			Key: []byte("k"), Value: payload(i%4, i/4, 0),
			Headers: []record.Header{{Key: "customer", Value: []byte(strconv.Itoa(i / 4 % 5))}},
		})
	}
	f.site.Produce("in", 0, &record.Record{Key: []byte("k"), Value: []byte("no customer")})
	f.settled(4, 10)
	f.settled(1, 11)
	reference := kgo.StickyKeyPartitioner(nil).ForTopic("out")
	for _, r := range contents(t, w.address(), "out") {
		if string(r.Value) == "no customer" {
			require.Nil(t, r.Key)
			continue
		}
		require.Equal(t, string(r.Headers[len(r.Headers)-1].Value)+"/k", string(r.Key))
		require.EqualValues(t, reference.Partition(&kgo.Record{Key: r.Key}, 4), r.Partition)
	}
}

func TestEachMessageGoesToTheTopicThatItNames(t *testing.T) {
	w := newWorld(t, kfake.DefaultNumPartitions(2))
	sendToManyTopics(t, w.address(), "many-", 300)
}

func TestEachMessageGoesToTheRealTopicThatItNames(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real broker")
	}
	sendToManyTopics(t, brokers.Kafka(t, "a").Address(), newTopicName()+"-", 200)
}

// sendToManyTopics sends each lane's messages round the topics, and expects them in order in each.
func sendToManyTopics(t *testing.T, address, prefix string, topics int) {
	t.Helper()
	const lanes, rounds = 4, 5
	f := newFerry(t, address, "", byHeader(t, prefix), func(_ *handlers.Destination, c *kafka.DestinationConfig) { c.Partitions = 2 })
	for l := range lanes {
		for i := range topics * rounds {
			f.site.Produce("in", l, to(strconv.Itoa((i*7+l)%topics), payload(l, i, 0)))
		}
	}
	f.settled(lanes, topics*rounds)
	require.Empty(t, f.parked)
	names := make([]string, topics)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	got := map[string]map[int][]int{}
	for _, r := range contents(t, address, names...) {
		parts := strings.Split(string(r.Value), "/")
		l, _ := strconv.Atoi(parts[0])
		n, _ := strconv.Atoi(parts[1])
		if got[r.Topic] == nil {
			got[r.Topic] = map[int][]int{}
		}
		got[r.Topic][l] = append(got[r.Topic][l], n)
		require.Equal(t, r.Topic, prefix+strconv.Itoa((n*7+l)%topics))
	}
	for _, name := range names {
		for l := range lanes {
			require.Len(t, got[name][l], rounds, "%s, lane %d", name, l)
			require.IsIncreasing(t, got[name][l])
		}
	}
}

func TestAMessageThatNamesNoPossibleTopicIsRefusedForGoodAndAlone(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(2, "to-good"))
	f := newFerry(t, w.address(), "", byHeader(t, "to-"))
	f.site.Produce("in", 0, to("good", []byte("0/0")), to("ba d", []byte("0/1")), to(strings.Repeat("x", 250), []byte("0/2")), to("good", []byte("0/3")))
	f.site.Produce("in", 1, to("good", []byte("1/0")))
	f.settled(1, 4)
	f.settled(2, 1)
	require.Equal(t, []string{"0/1", "0/2"}, f.parked)
	require.ErrorContains(t, f.errs[0], `"to-ba d" cannot be a topic of Kafka`)
	require.Len(t, contents(t, w.address(), "to-good"), 3)
}

func TestAMessageForWhichNoTopicCanBeMadeHoldsItsOwnLaneOnly(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(2, "to-good"))
	f := newFerry(t, w.address(), "", byHeader(t, "to-"), func(_ *handlers.Destination, c *kafka.DestinationConfig) { c.Create = false })
	f.site.Produce("in", 0, to("missing", []byte("0/0")), to("good", []byte("0/1")))
	for i := range 500 {
		f.site.Produce("in", 1, to("good", payload(1, i, 0)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, f.site.Await(ctx, func() bool { return f.site.Committed("in", "g", 1) == 500 }))
	require.Zero(t, f.site.Committed("in", "g", 0))
	require.Empty(t, f.parked)
	_, err := kadm.NewClient(newClient(t, w.address())).CreateTopic(t.Context(), 1, 1, nil, "to-missing")
	require.NoError(t, err)
	f.settled(1, 2)
	require.Len(t, contents(t, w.address(), "to-missing"), 1)
}

func TestATopicIsMadeWithItsConfiguration(t *testing.T) {
	for name, address := range map[string]func() string{
		"fake": func() string { return newWorld(t).address() },
		"real": func() string { return brokers.Kafka(t, "a").Address() },
	} {
		t.Run(name, func(t *testing.T) {
			address, topic := address(), newTopicName()
			f := newFerry(t, address, topic, func(_ *handlers.Destination, c *kafka.DestinationConfig) {
				c.Partitions, c.ReplicationFactor = 3, 1
				c.TopicConfig = map[string]string{"cleanup.policy": "compact", "max.message.bytes": "30000"}
			})
			f.site.Produce("in", 0, &record.Record{Key: []byte("k"), Value: payload(0, 0, 0)})
			f.settled(1, 1)
			configs, err := kadm.NewClient(newClient(t, address)).DescribeTopicConfigs(t.Context(), topic)
			require.NoError(t, err)
			has := map[string]string{}
			for _, c := range configs[0].Configs {
				has[c.Key] = c.MaybeValue()
			}
			require.Equal(t, "compact", has["cleanup.policy"])
			require.Equal(t, "30000", has["max.message.bytes"])
			detail, err := connect(t, address, "").Partitions(t.Context(), topic)
			require.NoError(t, err)
			require.Equal(t, 3, detail)
		})
	}
}

func TestAConfigurationThatKafkaDoesNotTakeHoldsAndIsShown(t *testing.T) {
	address, topic := brokers.Kafka(t, "a").Address(), newTopicName()
	f := newFerry(t, address, topic, func(_ *handlers.Destination, c *kafka.DestinationConfig) {
		c.TopicConfig = map[string]string{"cleanup.policy": "burn"}
	})
	f.site.Produce("in", 0, &record.Record{Value: payload(0, 0, 0)})
	require.Eventually(t, func() bool { _, _, err := f.destination.Health.State(); return err != nil }, patience, 10*time.Millisecond)
	_, _, err := f.destination.Health.State()
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(err))
	require.ErrorIs(t, err, kerr.InvalidConfig)
	require.ErrorContains(t, err, "burn")
	require.Empty(t, f.parked)
}

func TestInspectionOfATopicThatDependsOnTheMessage(t *testing.T) {
	w := newWorld(t)
	conn := connect(t, w.address(), "")
	_, _, o := kafka.DefaultConfig()
	d := handlers.Destination{Topic: "to-{header.to}", Template: template(t, "to-{header.to}")}
	text, err := conn.InspectDestination(t.Context(), d, o)
	require.NoError(t, err)
	require.Equal(t, `topic "to-{header.to}": depends on the message; missing ones are created with the cluster's default partitions and replication factor the cluster's default`, text)
	o.Create = false
	text, err = conn.InspectDestination(t.Context(), d, o)
	require.NoError(t, err)
	require.Equal(t, `topic "to-{header.to}": depends on the message; none is created`, text)
}

func newTopicName() string { return fmt.Sprintf("t-%016x", rand.Uint64()) }
