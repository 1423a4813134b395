package kafka_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

// connectStock opens a data center whose client is the stock one.
func connectStock(t *testing.T, address string) *kafka.Connection {
	t.Helper()
	c, _, _ := kafka.DefaultConfig()
	c.Brokers, c.Client = []string{address}, kafka.Watermill
	conn, err := open(t, c)
	require.NoError(t, err)
	return conn
}

// unusual is a record with all that the stock package's own marshaler would lose.
func unusual(n int) *kgo.Record {
	return &kgo.Record{
		Key: []byte(strconv.Itoa(n % 5)), Value: []byte(strconv.Itoa(n)), Timestamp: time.UnixMilli(1_700_000_000_123 + int64(n)),
		Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "b", Value: nil}, {Key: "a", Value: []byte("2")}, {Key: "", Value: []byte{0, 255}},
		},
	}
}

func TestTheStockClientCarriesWholeRecords(t *testing.T) {
	const partitions, n = 3, 120
	address := brokers.Kafka(t, "a").Address()
	in, out := newTopic(t, address, partitions, nil), newTopicName()
	client := newClient(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		r := unusual(i)
		r.Topic, r.Partition = in, int32(i%partitions)
		if i%10 == 0 {
			r.Value = nil
		}
		if i%7 == 0 {
			r.Key = nil
		}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	conn := connectStock(t, address)
	x := newTransfer(t, conn, conn, in, out, func(r *trip) { r.out.Partitions = partitions })
	arrives(t, kadm.NewClient(client), out, n)
	require.Eventually(t, func() bool { return x.source.Meter.Committed.Load() == n }, patience, 10*time.Millisecond)
	x.stop()
	want, got := contents(t, address, in), contents(t, address, out)
	require.Len(t, got, n, "a quiet stop repeats nothing")
	require.Equal(t, described(want, in), described(got, in))
}

// described lists records by partition; the ids that were derived from their places are left out.
func described(records []*kgo.Record, in string) map[int32][]string {
	all := map[int32][]string{}
	for _, r := range records {
		headers := make([]string, 0, len(r.Headers))
		for _, h := range r.Headers {
			if h.Key != record.IDKey || !strings.HasPrefix(string(h.Value), "here/"+in+"/") {
				headers = append(headers, fmt.Sprintf("%q=%#v", h.Key, h.Value))
			}
		}
		all[r.Partition] = append(all[r.Partition], fmt.Sprintf("%#v %#v %d %v", r.Key, r.Value, r.Timestamp.UnixMilli(), headers))
	}
	return all
}

func TestTheStockClientMakesTopicsKeysAndPartitionsAsTold(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	prefix := newTopicName() + "-"
	f := newFerryTo(t, connectStock(t, address), "", byHeader(t, prefix), func(_ *handlers.Destination, c *kafka.DestinationConfig) {
		c.Key = template(t, "{header.to}!")
		c.Partitions, c.TopicConfig, c.Compression = 5, map[string]string{"max.message.bytes": "20000"}, "lz4"
	})
	for i := range 40 {
		f.site.Produce("in", i%2, to(strconv.Itoa(i%4), payload(i%2, i/2, 10)))
	}
	f.site.Produce("in", 0, to("0", payload(0, 20, 30000)), to("no topic", payload(0, 21, 0)))
	f.settled(2, 20)
	f.settled(1, 22)
	require.Len(t, f.parked, 2)
	require.ErrorContains(t, f.errs[0], "max.message.bytes=20000")
	require.ErrorContains(t, f.errs[1], "cannot be a topic of Kafka")
	reference := kgo.StickyKeyPartitioner(nil)
	total := 0
	for i := range 4 {
		topic := prefix + strconv.Itoa(i)
		for _, r := range contents(t, address, topic) {
			total++
			require.Equal(t, strconv.Itoa(i)+"!", string(r.Key))
			require.EqualValues(t, reference.ForTopic(topic).Partition(&kgo.Record{Key: r.Key}, 5), r.Partition)
		}
	}
	require.Equal(t, 40, total)
}

func TestTheStockClientPassesWithTheRightCredentialsAndTellsOfWrongOnes(t *testing.T) {
	v := newVault(t)
	for _, m := range []kafka.Mechanism{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		c := v.config()
		c.Client, c.SASL.Mechanism = kafka.Watermill, m
		conn, err := open(t, c)
		require.NoError(t, err, m)
		x := newTransfer(t, conn, conn, "in-"+string(m), "out-"+string(m), nil)
		f := newFerryTo(t, conn, "in-"+string(m))
		f.send(2, 0, 5, 0)
		f.settled(2, 5)
		arrives(t, kadm.NewClient(v.client(t)), "out-"+string(m), 10)
		x.stop()
	}
	c := v.config()
	c.Client = kafka.Watermill
	conn, err := open(t, c)
	require.NoError(t, err)
	v.lock()
	_, _, o := kafka.DefaultConfig()
	_, err = conn.Publisher(handlers.Destination{DataCenter: "there", Topic: "out"}, o)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, "kafka broker "+v.address())
	require.ErrorContains(t, err, "check sasl.username and sasl.password")
	require.NotContains(t, err.Error(), "c4nary")
}

func TestTheStockClientRecoversAndShowsThatItIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	const n = 200
	b := brokers.KafkaOwn(t)
	in, out := newTopic(t, b.Address(), 2, nil), newTopic(t, b.Address(), 2, nil)
	fill(t, b.Address(), in, 2, n)
	conn := connectStock(t, b.Address())
	x := newTransfer(t, conn, conn, in, out, nil)
	require.Eventually(t, func() bool { return x.destination.Meter.Confirmed.Load() > 20 }, patience, time.Millisecond)
	b.Kill(t)
	for _, h := range []*handlers.Health{x.source.Health, x.destination.Health} {
		require.Eventually(t, func() bool { up, _, err := h.State(); return !up && err != nil }, patience, 10*time.Millisecond)
	}
	b.Start(t)
	began := time.Now()
	require.Eventually(t, func() bool {
		got := arrived(t, b.Address(), out)
		return len(first(got[0])) == n && len(first(got[1])) == n
	}, patience, 100*time.Millisecond)
	t.Logf("it took %s", time.Since(began))
	require.Eventually(t, func() bool { up, _, _ := x.source.Health.State(); return up }, patience, 10*time.Millisecond)
	x.stop()
	got := arrived(t, b.Address(), out)
	for p := range 2 {
		require.Equal(t, span(n), first(got[p]))
	}
}

func TestTheStockClientBeginsWhereItIsTold(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	in := newTopic(t, address, 1, nil)
	fill(t, address, in, 1, 10)
	conn := connectStock(t, address)
	out := newTopic(t, address, 1, nil)
	x := newTransfer(t, conn, conn, in, out, func(r *trip) { r.source.Start = config.Start{Latest: true} })
	require.Eventually(t, func() bool { up, _, _ := x.source.Health.State(); return up }, patience, 10*time.Millisecond)
	admin := kadm.NewClient(newClient(t, address))
	for held(t, admin, out) == 0 { // Where the newest is, sarama asks only after its session has begun.
		fill(t, address, in, 1, 1)
	}
	require.Equal(t, 0, arrived(t, address, out)[0][0])
	require.Less(t, held(t, admin, out), held(t, admin, in)-9)
}

func TestTheStockClientLogsNothingForAMessage(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	in, out := newTopic(t, address, 1, nil), newTopic(t, address, 1, nil)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conn := connectStock(t, address)
	x := newTransfer(t, conn, conn, in, out, func(r *trip) { r.source.Logger, r.destination.Logger = logger, logger })
	fill(t, address, in, 1, 200)
	arrives(t, kadm.NewClient(newClient(t, address)), out, 200)
	x.stop()
	require.Less(t, strings.Count(log.String(), "\n"), 50, log.String())
}
