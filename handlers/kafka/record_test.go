package kafka_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/record"
)

func TestAnyTypedHeadersComeBackFromAKafkaRecord(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", record.TypesHeader})
	headers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Header {
		return record.Header{
			Key: name.Draw(t, "name"), Value: []byte(rapid.SampledFrom([]string{"1", "a:1", ""}).Draw(t, "value")),
			Type: record.Type(rapid.Uint8Range(0, 2).Draw(t, "type")),
		}
	}), 1, 5)
	rapid.Check(t, func(t *rapid.T) {
		want := headers.Draw(t, "headers")
		for id, extra := range map[string]int{"": 0, "id": 1} {
			var k kgo.Record
			kafka.ToKafka(&record.Record{ID: id, Headers: want, Time: time.UnixMilli(1)}, &k)
			require.LessOrEqual(t, len(k.Headers), len(want)+1+extra)
			require.Equal(t, want, kafka.FromKafka("shanghai", &k).Headers)
		}
	})
}

func TestTypesOfHeadersAreOneMoreHeaderAndNothingWithoutTypes(t *testing.T) {
	headers := []record.Header{{Key: "n", Value: []byte("7"), Type: record.Int32}, {Key: "v", Type: record.Void}, {Key: "s", Value: []byte("x")}}
	var k kgo.Record
	kafka.ToKafka(&record.Record{ID: "id", Headers: headers}, &k)
	require.Equal(t, []kgo.RecordHeader{
		{Key: record.IDKey, Value: []byte("id")},
		{Key: "n", Value: []byte("7")},
		{Key: "v"},
		{Key: "s", Value: []byte("x")},
		{Key: "mqferry_types", Value: []byte("n:7&v:17")},
	}, k.Headers)

	var untyped kgo.Record
	kafka.ToKafka(&record.Record{Headers: headers[2:]}, &untyped)
	require.Equal(t, []kgo.RecordHeader{{Key: "s", Value: []byte("x")}}, untyped.Headers)
}
