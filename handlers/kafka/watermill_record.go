package kafka

import (
	"context"
	"sync"

	"github.com/IBM/sarama"
	stock "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers/record"
)

// toSarama gives sarama's form of a record, without topic and partition. What is nil stays so.
func toSarama(k *kgo.Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Timestamp: k.Timestamp}
	if k.Key != nil {
		m.Key = sarama.ByteEncoder(k.Key)
	}
	if k.Value != nil {
		m.Value = sarama.ByteEncoder(k.Value)
	}
	if len(k.Headers) > 0 {
		m.Headers = make([]sarama.RecordHeader, len(k.Headers))
	}
	for i, h := range k.Headers {
		m.Headers[i] = sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value}
	}
	return m
}

func fromSarama(m *sarama.ConsumerMessage) *kgo.Record {
	k := &kgo.Record{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
	if len(m.Headers) > 0 {
		k.Headers = make([]kgo.RecordHeader, len(m.Headers))
	}
	for i, h := range m.Headers {
		k.Headers[i] = kgo.RecordHeader{Key: string(h.Key), Value: h.Value}
	}
	return k
}

// passengers are the records of the messages that the stock subscriber has in hand, one of each partition. It gives each message a context of its
// own, and copies it when it is nacked: so they wait here until it comes out.
type passengers struct {
	dataCenter string
	mu         sync.Mutex
	records    map[int32]passenger
}

type passenger struct {
	offset int64
	record *record.Record
}

// Unmarshal is called by the stock subscriber.
func (p *passengers) Unmarshal(m *sarama.ConsumerMessage) (*message.Message, error) {
	r := fromKafka(p.dataCenter, fromSarama(m))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.records == nil {
		p.records = map[int32]passenger{}
	}
	p.records[m.Partition] = passenger{m.Offset, r}
	return r.Message(context.Background()), nil
}

// board puts the record into the context of a message that came out. It reports false for one whose partition has gone to others meanwhile.
func (p *passengers) board(msg *message.Message) bool {
	partition, _ := stock.MessagePartitionFromCtx(msg.Context())
	offset, _ := stock.MessagePartitionOffsetFromCtx(msg.Context())
	p.mu.Lock()
	found := p.records[partition]
	p.mu.Unlock()
	if found.record == nil || found.offset != offset {
		return false
	}
	msg.SetContext(record.With(msg.Context(), found.record))
	return true
}
