package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqferry/mqferry/handlers"
)

// Between the moment in which the client learns that a batch failed and the moment in which it tells us, a message may be sent to the same
// partition. This test makes that moment long. It looks inside, since nothing outside can hold the client's promises back.
func TestAMessageSentBehindABatchThatHasJustFailedDoesNotOvertakeIt(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "out"))
	require.NoError(t, err)
	defer cluster.Close()
	p, conn := openPublisher(t, cluster)
	defer conn.Close()
	defer p.Close()
	topic, err := p.catalog.topic("out")
	require.NoError(t, err)

	var requests atomic.Int64
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		request := r.(*kmsg.ProduceRequest)
		requests.Add(1)
		return refuseFirst(request, requests.Load() == 2)
	})

	held, release := make(chan struct{}), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	p.client.Produce(t.Context(), &kgo.Record{Topic: "out", Partition: 1}, func(*kgo.Record, error) {
		close(held)
		<-release
	})
	within(t, held)

	first, second := ship(topic.domains[0], "first"), ship(topic.domains[0], "second")
	p.mu.Lock()
	recalled := topic.domains[0].context.Done()
	p.mu.Unlock()
	within(t, recalled) // The client knows now that they failed, and cannot say so.
	third := ship(topic.domains[0], "third")
	p.client.Produce(t.Context(), &kgo.Record{Topic: "out", Partition: 1}, nil) // Takes along what is in the buffer of the other.
	require.Eventually(t, func() bool { return requests.Load() >= 3 }, 10*time.Second, time.Millisecond)
	free()

	for _, s := range []*shipment{first, second, third} {
		require.NoError(t, s.turn.Wait())
	}
	require.Less(t, first.record.Offset, second.record.Offset)
	require.Less(t, second.record.Offset, third.record.Offset)
}

func openPublisher(t *testing.T, cluster *kfake.Cluster) (*publisher, *Connection) {
	t.Helper()
	c, _, o := DefaultConfig()
	c.Brokers = cluster.ListenAddrs()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := Open(ctx, c, handlers.Settings{DataCenter: "here"})
	require.NoError(t, err)
	p, err := newPublisher(conn.(*Connection), handlers.Destination{
		Route: "r", DataCenter: "here", Topic: "out", Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}, o)
	require.NoError(t, err)
	return p, conn.(*Connection)
}

func ship(d *domain, value string) *shipment {
	s := &shipment{domain: d, turn: handlers.TurnOf(message.NewMessage(value, nil))}
	s.record = kgo.Record{Topic: "out", Partition: d.partition, Value: []byte(value)}
	s.size = encodedSize(&s.record)
	s.put()
	return s
}

func within(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it did not happen in time")
	}
}

// refuseFirst refuses a request, or leaves it to the cluster.
func refuseFirst(request *kmsg.ProduceRequest, refuse bool) (kmsg.Response, error, bool) {
	if !refuse {
		return nil, nil, false
	}
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range request.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.InvalidRecord.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		response.Topics = append(response.Topics, rt)
	}
	return response, nil, true
}
