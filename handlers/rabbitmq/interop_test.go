package rabbitmq_test

import (
	"testing"
	"time"

	stock "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/record"
)

func TestMessageOfTheStockPackageComesBackAsItWas(t *testing.T) {
	msg := message.NewMessage("id-1", []byte("payload"))
	msg.Metadata = message.Metadata{"b": "2", "a": "1", "binary": "\xff\x00"}
	p, err := stock.DefaultMarshaler{}.Marshal(msg)
	require.NoError(t, err)
	r := read(delivered(p))
	require.Equal(t, "id-1", r.ID)
	require.Equal(t, "payload", string(r.Value))
	for key, value := range msg.Metadata {
		require.Equal(t, value, record.Metadata(r)[key])
	}

	second := published(t, r)
	requireDelivered(t, delivered(p), second)
	got, err := stock.DefaultMarshaler{}.Unmarshal(*second)
	require.NoError(t, err)
	require.True(t, got.Equals(msg))
}

func TestStockPackageReadsWhatComesFromKafkaAndRedis(t *testing.T) {
	for name, r := range map[string]*record.Record{
		"a Kafka record": {
			ID: "id-1", Key: []byte("\xff\x00"), Time: time.UnixMilli(1_700_000_000_123),
			Headers: []record.Header{{Key: "b", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte("2")}, {Key: "CC", Value: []byte("x")}},
		},
		"a Redis entry of any fields": {
			ID: "id-1", Value: []byte("v"), Headers: record.UnfoldFields([]string{"b", "2", "payload", "v", "a", ""}).Headers,
		},
	} {
		t.Run(name, func(t *testing.T) {
			msg, err := stock.DefaultMarshaler{}.Unmarshal(*published(t, r))
			require.NoError(t, err)
			require.Equal(t, "id-1", msg.UUID)
			require.Equal(t, string(r.Value), string(msg.Payload))
			require.Equal(t, "2", msg.Metadata["b"])
			require.Equal(t, "", msg.Metadata["a"])
			require.Equal(t, string(r.Key), msg.Metadata[record.KeyEntry])
		})
	}
}
