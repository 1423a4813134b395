package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	stock "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

func newTopic(t *testing.T, address string, partitions int32, configs map[string]*string) string {
	t.Helper()
	name := newTopicName()
	_, err := kadm.NewClient(newClient(t, address)).CreateTopic(t.Context(), partitions, 1, configs, name)
	require.NoError(t, err)
	return name
}

func TestOneRecordAtFaultAmongThousandsOnALongLinkTakesSeconds(t *testing.T) {
	b := brokers.KafkaOwn(t)
	l := b.Link(t)
	l.Delay(50 * time.Millisecond)
	// Kafka refuses a record whose time is more than an hour off, and with it the batch.
	topic := newTopic(t, b.Address(), 1, map[string]*string{"message.timestamp.before.max.ms": ptr("3600000")})
	f := newFerry(t, l.Address(), topic)
	f.send(1, 0, 1, 1000)
	f.settled(1, 1)
	f.send(1, 1, 2000, 1000)
	f.site.Produce("in", 0, &record.Record{Value: payload(0, 2000, 1000), Time: time.Now().Add(-48 * time.Hour)})
	began := time.Now()
	f.send(1, 2001, 4096, 1000)
	f.settled(1, 4096)
	t.Logf("it took %s", time.Since(began))
	require.Less(t, time.Since(began), 15*time.Second)
	require.Equal(t, []string{"0/2000"}, trimmed(f.parked))
	requireOnce(t, arrived(t, b.Address(), topic), 1, 4096, f.parked)
}

func TestALimitLoweredOnARealTopicRefusesOnlyWhatIsOverIt(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, 2, nil)
	f := newFerry(t, address, topic)
	f.send(2, 0, 100, 1000)
	f.settled(2, 100)
	_, err := kadm.NewClient(newClient(t, address)).AlterTopicConfigs(t.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: ptr("20000")}}, topic)
	require.NoError(t, err)
	f.send(2, 100, 3000, 1000)
	f.site.Produce("in", 0, &record.Record{Value: payload(0, 3000, 30000)})
	f.send(1, 3001, 3100, 1000)
	f.settled(1, 3100)
	f.settled(2, 3000)
	require.Equal(t, []string{"0/3000"}, trimmed(f.parked))
	got := arrived(t, address, topic)
	once(t, map[int][]int{0: got[0]}, 1, 3100, "0/3000")
	require.Equal(t, span(3000), got[1])
}

func TestARealTopicMadeAgainIsFoundAgain(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, 2, nil)
	f := newFerry(t, address, topic)
	f.send(1, 0, 100, 10)
	f.settled(1, 100)
	var c catch
	s := source(topic)
	s.Group = topic
	m := newMember(t, address, "", s, c.add)
	c.await(t, 100)
	admin := kadm.NewClient(newClient(t, address))
	_, err := admin.DeleteTopic(t.Context(), topic)
	require.NoError(t, err)
	f.send(1, 100, 1000, 10)
	f.settled(1, 1000)
	c.await(t, 1000)
	m.close()
	require.Empty(t, f.parked)
	require.Equal(t, 900, len(contents(t, address, topic)))
	require.Less(t, s.Meter.Reconnects.Load(), int64(50), "a hot loop")
}

func TestMembersOfARealGroupComeAndGoUnderLoad(t *testing.T) {
	const partitions, n = 6, 20000
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, partitions, nil)
	fill(t, address, topic, partitions, n)
	s := source(topic)
	s.Group = topic
	s.Window = 2000
	var c catch
	a := newMember(t, address, "a", s, c.add)
	c.await(t, n)
	s.Meter = &handlers.Meter{}
	b := newMember(t, address, "b", s, c.add)
	c.await(t, 2*n)
	a.close()
	c.await(t, 3*n)
	d := newMember(t, address, "d", s, c.add)
	c.await(t, partitions*n)
	d.close()
	b.close()
	for p := range partitions {
		require.Equal(t, span(n), c.offsets[fmt.Sprint(p)], "partition %d", p)
	}
}

func TestApplicationsOnTheStockPackageUnderstandWhatIsCarriedAndAreUnderstood(t *testing.T) {
	address := brokers.Kafka(t, "a").Address()
	topic := newTopic(t, address, 1, nil)
	publisher, err := stock.NewPublisher(stock.PublisherConfig{Brokers: []string{address}, Marshaler: stock.DefaultMarshaler{}}, nil)
	require.NoError(t, err)
	defer publisher.Close()
	sent := message.NewMessage("id-1", []byte("hello"))
	sent.Metadata.Set("colour", "blue")
	require.NoError(t, publisher.Publish(topic, sent))

	var got sync.Map
	s := source(topic)
	s.Group = topic
	m := newMember(t, address, "", s, func(msg *message.Message) { got.Store(msg.UUID, msg.Copy()) })
	require.Eventually(t, func() bool { _, ok := got.Load("id-1"); return ok }, patience, time.Millisecond)
	m.close()
	value, _ := got.Load("id-1")
	require.Equal(t, sent.Payload, value.(*message.Message).Payload)
	require.Equal(t, sent.Metadata, value.(*message.Message).Metadata)

	back := newTopic(t, address, 1, nil)
	f := newFerry(t, address, back)
	f.site.Produce("in", 0, &record.Record{ID: "id-2", Value: []byte("world"), Headers: []record.Header{{Key: "colour", Value: []byte("red")}}})
	f.settled(1, 1)
	config := stock.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = -2
	subscriber, err := stock.NewSubscriber(stock.SubscriberConfig{
		Brokers: []string{address}, Unmarshaler: stock.DefaultMarshaler{}, OverwriteSaramaConfig: config,
	}, nil)
	require.NoError(t, err)
	defer subscriber.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	messages, err := subscriber.Subscribe(ctx, back)
	require.NoError(t, err)
	select {
	case msg := <-messages:
		msg.Ack()
		require.Equal(t, "id-2", msg.UUID)
		require.Equal(t, "world", string(msg.Payload))
		require.Equal(t, message.Metadata{"colour": "red"}, msg.Metadata)
	case <-ctx.Done():
		require.FailNow(t, "nothing came")
	}
}
