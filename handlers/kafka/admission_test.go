package kafka

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mqferry/mqferry/handlers"
)

// The limit is not read again for each message that is over it, so this test looks inside, to let it age.
func TestALimitThatIsRaisedWhileRunningLetsLargerRecordsPass(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "out"))
	require.NoError(t, err)
	defer cluster.Close()
	p, conn := openPublisher(t, cluster)
	defer conn.Close()
	defer p.Close()
	large := func() *message.Message { return message.NewMessage("large", make([]byte, 1_500_000)) }
	err = p.Publish("out", large())
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err))

	limit := "2000000"
	_, err = conn.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, "out")
	require.NoError(t, err)
	topic, err := p.catalog.topic("out")
	require.NoError(t, err)
	topic.checked.Store(time.Now().Add(-2 * stale).UnixNano())
	require.NoError(t, p.Publish("out", large()))
	require.NoError(t, p.Publish("out", message.NewMessage("small", []byte("x"))))
}

// Kafka's own limits count the batch that holds a record: this is what is compared with them.
func TestARecordOfExactlyTheLimitPassesAndOneByteMoreDoesNot(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "out"))
	require.NoError(t, err)
	defer cluster.Close()
	p, conn := openPublisher(t, cluster)
	defer conn.Close()
	defer p.Close()
	require.NoError(t, p.Publish("out", message.NewMessage("", []byte("x"))))
	topic, err := p.catalog.topic("out")
	require.NoError(t, err)
	alone := &shipment{domain: topic.domains[0]}
	alone.record.Value = make([]byte, 1_000_000)
	most := 1_000_000 + int(topic.limit.Load()) - encodedSize(&alone.record)
	require.NoError(t, p.Publish("out", message.NewMessage("", make([]byte, most))))
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(p.Publish("out", message.NewMessage("", make([]byte, most+1)))))
}
