package redisstream_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	stock "github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestStockApplicationsInteroperateOnBothSides(t *testing.T) {
	w := newWorld(t, brokers.Redis(t, "a").Address(), brokers.Redis(t, "b").Address())
	p, err := stock.NewPublisher(stock.PublisherConfig{Client: w.client}, watermill.NopLogger{})
	require.NoError(t, err)
	s, err := stock.NewSubscriber(stock.SubscriberConfig{Client: w.there, ConsumerGroup: "application"}, watermill.NopLogger{})
	require.NoError(t, err)
	sent := make([]*message.Message, 50)
	for i := range sent {
		sent[i] = message.NewMessage(watermill.NewUUID(), []byte(strings.Repeat("payload \xff ", i)))
		for k := range i {
			sent[i].Metadata.Set("key "+strconv.Itoa(k), strings.Repeat("value ", k*k))
		}
		require.NoError(t, p.Publish(w.in, sent[i]))
	}
	stop := w.relay()
	messages, err := s.Subscribe(t.Context(), w.out)
	require.NoError(t, err)
	for i := range sent {
		got := w.receive(messages, 1)[0]
		got.Ack()
		require.Equal(t, sent[i].UUID, got.UUID)
		require.Equal(t, string(sent[i].Payload), string(got.Payload))
		delete(got.Metadata, record.TimeEntry)
		require.Equal(t, sent[i].Metadata, got.Metadata)
	}
	require.NoError(t, s.Close())
	w.settled(len(sent))
	stop()
}

// The encoding of metadata is our own, so it is compared with that of the stock package, any map, both ways.
func TestAnyMetadataReadsAsTheStockPackageWritesIt(t *testing.T) {
	server := miniredis.RunT(t)
	w := newWorld(t, server.Addr(), server.Addr())
	p := w.publisher()
	messages := w.subscribe(w.subscriber("me"))
	text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat("x", rapid.SampledFrom([]int{31, 32, 255, 256, 65535, 65536}).Draw(t, "length"))
	}))
	count := 0
	rapid.Check(t, func(rt *rapid.T) {
		count++
		metadata := message.Metadata(rapid.MapOfN(text, text, 0, 20).Draw(rt, "metadata"))
		for k := range metadata {
			if strings.HasPrefix(k, "mqferry_") || k == record.IDKey {
				delete(metadata, k)
			}
		}
		msg := message.NewMessage("id", []byte("payload"))
		msg.Metadata = maps.Clone(metadata)

		fields, err := stock.DefaultMarshallerUnmarshaller{}.Marshal(w.in, msg)
		require.NoError(rt, err)
		require.NoError(rt, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, Values: fields}).Err())
		got := w.receive(messages, 1)[0]
		got.Ack()
		require.Equal(rt, metadata, got.Metadata)

		require.NoError(rt, p.Publish(w.out, msg))
		entries, err := w.there.XRevRangeN(t.Context(), w.out, "+", "-", 1).Result()
		require.NoError(rt, err)
		back, err := stock.DefaultMarshallerUnmarshaller{}.Unmarshal(entries[0].Values)
		require.NoError(rt, err)
		require.Equal(rt, len(metadata), len(back.Metadata))
		for k, v := range metadata {
			require.Equal(rt, v, back.Metadata[k])
		}
	})
	require.Positive(t, count)
}

func TestMoreMetadataThanAShortMapHoldsIsCarried(t *testing.T) {
	server := miniredis.RunT(t)
	w := newWorld(t, server.Addr(), server.Addr())
	for i, n := range []int{15, 16, 65535, 65536} {
		msg := message.NewMessage("id", []byte("payload"))
		for k := range n {
			msg.Metadata.Set(strconv.Itoa(k), "v")
		}
		fields, err := stock.DefaultMarshallerUnmarshaller{}.Marshal(w.in, msg)
		require.NoError(t, err)
		require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: w.in, Values: fields}).Err())
		w.source.Group = "group-" + strconv.Itoa(n)
		got := w.receive(w.subscribe(w.subscriber("me")), i+1)
		require.Len(t, got[i].Metadata, n)
		require.NoError(t, w.publisher().Publish(w.out, msg))
		entries, err := w.there.XRevRangeN(t.Context(), w.out, "+", "-", 1).Result()
		require.NoError(t, err)
		back, err := stock.DefaultMarshallerUnmarshaller{}.Unmarshal(entries[0].Values)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(back.Metadata), n)
	}
}

func TestAStreamWithAMaximumLengthIsTrimmed(t *testing.T) {
	w := newWorld(t, brokers.Redis(t, "a").Address(), brokers.Redis(t, "b").Address())
	w.destOwn.MaxLength = 100
	w.produce(0, 5000)
	stop := w.relay()
	w.settled(5000)
	stop()
	require.Less(t, w.count(), 1000)
	require.GreaterOrEqual(t, w.count(), 100)
}
