package rabbitmq_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
)

const queue = "orders"

// delivered is a message as a consumer of the queue gets it from a RabbitMQ to which p was published.
func delivered(p amqp.Publishing) *amqp.Delivery {
	d := &amqp.Delivery{
		Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration, MessageId: p.MessageId,
		Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId, Body: p.Body, RoutingKey: queue,
	}
	if len(d.Headers) == 0 {
		d.Headers = nil
	}
	if d.Body == nil {
		d.Body = []byte{}
	}
	return d
}

func read(d *amqp.Delivery) *record.Record { return rabbitmq.FromDelivery("frankfurt", queue, d) }

// published gives what r is in RabbitMQ.
func published(t require.TestingT, r *record.Record) *amqp.Delivery {
	p, err := rabbitmq.ToPublishing(r)
	require.NoError(t, err)
	require.NoError(t, p.Headers.Validate())
	require.Equal(t, amqp.Persistent, p.DeliveryMode)
	require.Empty(t, p.UserId)
	require.NotContains(t, p.Headers, "CC")
	require.NotContains(t, p.Headers, "BCC")
	return delivered(p)
}

// escapedNames adds to each name the same escaped once and twice.
func escapedNames(names ...string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		all = append(all, record.EscapedPrefix+name, record.EscapedPrefix+record.EscapedPrefix+name)
	}
	return all
}

// ownNames are those that mean something in a table, the ones of Fold apart.
var ownNames = []string{
	record.ContentTypeEntry, record.PriorityEntry, record.ReplyToEntry, record.ExpirationEntry, record.MessageIDEntry,
	record.TimestampEntry, record.ExchangeEntry, record.RoutingKeyEntry, record.UserIDEntry, record.DeliveryModeEntry, record.CCEntry,
}

func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{
		"", "1", "5", "007", "300", "60000", "-5", "99999999999999999999", "text/plain", "id-1", "true", "{}", `{"a": 1}`, "[]", "1.50",
		"amq.rabbitmq.reply-to", "\xff\x00", strings.Repeat("x", 255), strings.Repeat("x", 256),
	}), rapid.String())
}

func anyField(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(), rapid.Uint16().AsAny(),
		rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(), rapid.Float32().AsAny(), rapid.Float64().AsAny(),
		anyText().AsAny(), anyText().AsAny(), rapid.SliceOfN(rapid.Byte(), 0, 6).AsAny(),
		rapid.SampledFrom([]any{math.Copysign(0, -1), float32(math.SmallestNonzeroFloat32), 1e21, int64(math.MinInt64), "\xff"}),
		rapid.Custom(func(t *rapid.T) any {
			return amqp.Decimal{Scale: rapid.Uint8().Draw(t, "scale"), Value: rapid.Int32().Draw(t, "value")}
		}),
		rapid.Custom(func(t *rapid.T) any { return time.Unix(rapid.Int64().Draw(t, "seconds"), 0) }),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	name := rapid.OneOf(anyText().Filter(func(s string) bool { return len(s) < 256 }), rapid.SampledFrom([]string{
		"a", "$int32", "$table", "$bytes", "\xff",
	}))
	table := rapid.MapOfN(name, rapid.Deferred(func() *rapid.Generator[any] { return anyField(depth - 1) }), 0, 4)
	array := rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return anyField(depth - 1) }), 0, 4)
	return rapid.OneOf(append(scalars,
		rapid.Map(table, func(m map[string]any) any { return amqp.Table(m) }),
		rapid.Map(array, func(a []any) any { return a }))...)
}

// anyDelivery draws messages with headers of every type, under names that the codec uses itself.
func anyDelivery(names ...string) *rapid.Generator[*amqp.Delivery] {
	name := rapid.OneOf(rapid.SampledFrom(names), rapid.StringN(0, 5, 20))
	maybe := func(values ...string) *rapid.Generator[string] {
		return rapid.OneOf(rapid.Just(""), rapid.SampledFrom(append(values, "\xff\x00", strings.Repeat("p", 255))))
	}
	return rapid.Custom(func(t *rapid.T) *amqp.Delivery {
		d := delivered(amqp.Publishing{
			Headers: rapid.MapOfN(name, anyField(2), 0, 12).Draw(t, "headers"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			ContentType: maybe("text/plain").Draw(t, "content-type"), ContentEncoding: maybe("gzip").Draw(t, "content-encoding"),
			DeliveryMode: rapid.SampledFrom([]uint8{0, 1, 2}).Draw(t, "mode"), Priority: rapid.Uint8().Draw(t, "priority"),
			CorrelationId: maybe().Draw(t, "correlation-id"), ReplyTo: maybe("amq.rabbitmq.reply-to.g1").Draw(t, "reply-to"),
			Expiration: rapid.SampledFrom([]string{"", "0", "60000", "+5", "315360000000"}).Draw(t, "expiration"),
			Type:       maybe().Draw(t, "type"), UserId: maybe("guest").Draw(t, "user-id"), AppId: maybe().Draw(t, "app-id"),
			MessageId: maybe("id-1", "id-2").Draw(t, "message-id"),
		})
		if rapid.Bool().Draw(t, "timed") {
			d.Timestamp = time.Unix(rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 2_000_000_000)).Draw(t, "timestamp"), 0)
		}
		if uuid := rapid.SampledFrom([]string{"", "id-1", "id-3", strings.Repeat("i", 256)}).Draw(t, "uuid"); uuid != "" {
			d.Headers = maps.Clone(d.Headers)
			if d.Headers == nil {
				d.Headers = amqp.Table{}
			}
			d.Headers[record.IDKey] = uuid
		}
		if rapid.Bool().Draw(t, "exchange") {
			d.Exchange, d.RoutingKey = "events", maybe("a.b").Draw(t, "routing key")
		}
		return d
	})
}

// relayed is d as it is at a destination that gives it back exactly but for what is declared.
func relayed(d *amqp.Delivery) *amqp.Delivery {
	want := *d
	want.Exchange, want.RoutingKey = "", queue
	for name, set := range map[string]bool{
		record.UserIDEntry: d.UserId != "", record.DeliveryModeEntry: d.DeliveryMode != amqp.Persistent,
		record.CCEntry: d.Headers["CC"] != nil, record.BCCEntry: d.Headers["BCC"] != nil,
	} {
		if !set {
			continue
		}
		headers := make(amqp.Table)
		for k, v := range want.Headers {
			if strings.HasSuffix(k, name) && strings.Trim(strings.ReplaceAll(k, record.EscapedPrefix, ""), "") == name {
				k = record.EscapedPrefix + k
			}
			headers[k] = v
		}
		switch name {
		case record.UserIDEntry:
			headers[name], want.UserId = d.UserId, ""
		case record.DeliveryModeEntry:
			headers[name], want.DeliveryMode = "1", amqp.Persistent
		case record.CCEntry:
			headers[name] = d.Headers["CC"]
			delete(headers, "CC")
		case record.BCCEntry:
			headers[name] = d.Headers["BCC"]
			delete(headers, "BCC")
		}
		want.Headers = headers
	}
	return &want
}

// requireDelivered compares messages as an application sees them.
func requireDelivered(t require.TestingT, want, got *amqp.Delivery) {
	require.Equal(t, len(want.Headers), len(got.Headers), "headers: want %v, got %v", want.Headers, got.Headers)
	for name, field := range want.Headers {
		require.Contains(t, got.Headers, name)
		require.Equal(t, plainField(field), plainField(got.Headers[name]), "header %q", name)
	}
	require.True(t, want.Timestamp.Equal(got.Timestamp), "timestamp: want %v, got %v", want.Timestamp, got.Timestamp)
	w, g := *want, *got
	w.Headers, g.Headers, w.Timestamp, g.Timestamp = nil, nil, time.Time{}, time.Time{}
	require.Equal(t, w, g)
}

// plainField makes fields comparable: floats by their bits, empty arrays alike.
func plainField(field any) any {
	switch v := field.(type) {
	case float32:
		return [2]any{"float32", math.Float32bits(v)}
	case float64:
		return [2]any{"float64", math.Float64bits(v)}
	case time.Time:
		return [2]any{"time", v.Unix()}
	case amqp.Table:
		m := map[string]any{}
		for k, f := range v {
			m[k] = plainField(f)
		}
		return m
	case []any:
		a := []any{}
		for _, f := range v {
			a = append(a, plainField(f))
		}
		return a
	}
	return field
}

func TestAnyMessageComesBackFromItsRecord(t *testing.T) {
	names := escapedNames(append(ownNames, record.IDKey, record.TypesHeader, record.FieldsHeader)...)
	names = append(names, "CC", "BCC", record.EscapedPrefix+"CC", record.EscapedPrefix+record.KeyEntry, record.EscapedPrefix+record.TimeEntry)
	rapid.Check(t, func(t *rapid.T) {
		d := anyDelivery(names...).Draw(t, "message")
		if d.Headers["CC"] == nil {
			delete(d.Headers, "CC")
		}
		if d.Headers["BCC"] == nil {
			delete(d.Headers, "BCC")
		}
		r := read(d)
		require.Equal(t, record.Source{DataCenter: "frankfurt", Topic: queue}, r.Source)
		require.True(t, slices.IsSortedFunc(r.Headers, func(a, b record.Header) int { return strings.Compare(a.Key, b.Key) }))
		second := published(t, r)
		requireDelivered(t, relayed(d), second)
		requireDelivered(t, second, published(t, read(second)))
	})
}

func TestAnyMessageUnderAnyNameGivesARecordThatStays(t *testing.T) {
	names := escapedNames(append(ownNames, record.KeyEntry, record.NullEntry, record.TimeEntry, record.HeadersEntry, "CC", record.IDKey)...)
	rapid.Check(t, func(t *rapid.T) {
		r := read(anyDelivery(names...).Draw(t, "message"))
		want := *r
		want.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h record.Header) bool {
			return h.Key == record.ExchangeEntry || h.Key == record.RoutingKeyEntry
		})
		got := read(published(t, r))
		if len(want.Headers) == len(r.Headers) {
			requireSame(t, r, got)
		}
	})
}

func requireSame(t require.TestingT, want, got *record.Record) {
	require.Equal(t, want.ID, got.ID, "id")
	require.Equal(t, want.Key, got.Key, "key")
	require.Equal(t, want.Value, got.Value, "value")
	require.Equal(t, len(want.Headers), len(got.Headers), "headers: want %v, got %v", want.Headers, got.Headers)
	for i := range want.Headers {
		require.Equal(t, want.Headers[i], got.Headers[i], "header %d", i)
	}
	require.Equal(t, want.Time.IsZero(), got.Time.IsZero(), "time unknown")
	require.True(t, want.Time.Equal(got.Time), "time: want %v, got %v", want.Time, got.Time)
}

// anyRecord draws what other brokers hold: any order, repeats, nulls, and types with texts that do not fit them.
func anyRecord() *rapid.Generator[*record.Record] {
	names := escapedNames(append(ownNames, record.KeyEntry, record.NullEntry, record.TimeEntry, record.HeadersEntry, "CC", "BCC", record.IDKey)...)
	for _, dropped := range []string{record.IDKey, record.ExchangeEntry, record.RoutingKeyEntry, record.TimestampEntry} {
		names = slices.DeleteFunc(names, func(name string) bool { return name == dropped })
	}
	name := rapid.OneOf(rapid.SampledFrom(names), rapid.SampledFrom([]string{"a", "b"}), rapid.StringN(0, 5, 20))
	maybe := rapid.OneOf(rapid.Just[[]byte](nil), rapid.Map(anyText(), func(s string) []byte { return []byte(s) }))
	headers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Header {
		h := record.Header{Key: name.Draw(t, "name"), Value: maybe.Draw(t, "value")}
		if rapid.Bool().Draw(t, "typed") {
			h.Type = record.Type(rapid.Uint8Range(0, 20).Draw(t, "type"))
		}
		return h
	}), 0, 12)
	return rapid.Custom(func(t *rapid.T) *record.Record {
		return &record.Record{
			ID:  rapid.SampledFrom([]string{"id-1", "x", strings.Repeat("i", 300)}).Draw(t, "id"),
			Key: maybe.Draw(t, "key"), Value: maybe.Draw(t, "value"), Headers: headers.Draw(t, "headers"),
			Time: time.UnixMilli(rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 4e12)).Draw(t, "ms")).
				Add(time.Duration(rapid.SampledFrom([]int{0, 1, 999_999}).Draw(t, "ns"))),
		}
	})
}

func TestAnyRecordOfAnotherBrokerComesBackFromItsMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		requireSame(t, r, read(published(t, r)))
	})
}

func TestAnyFieldsOfRedisComeBackFromTheirMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := append(escapedNames(record.ContentTypeEntry, record.KeyEntry, record.IDKey), "payload", "metadata", "CC", record.FieldsHeader)
		fields := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(names), anyText()), 2, 12).Draw(t, "fields")
		fields = fields[:len(fields)/2*2]
		r := record.UnfoldFields(fields)
		if slices.ContainsFunc(r.Headers, func(h record.Header) bool { return len(h.Key) > 255 }) {
			return
		}
		r.Time = time.UnixMilli(1_700_000_000_123)
		if r.ID == "" {
			r.ID = "virginia/orders@1700000000123-0"
		}
		got := read(published(t, r))
		requireSame(t, r, got)
		back, ok := record.FoldFields(got)
		require.True(t, ok)
		if !slices.Contains(fields, record.IDKey) {
			require.Equal(t, fields, back)
		}
	})
}

func TestMessageThatRabbitMQCannotTakeIsPermanent(t *testing.T) {
	many := &record.Record{}
	for i := range 8193 {
		many.Headers = append(many.Headers, record.Header{Key: strings.Repeat("n", i/200+1) + string(rune('a'+i%200)), Value: []byte{}})
	}
	for name, r := range map[string]*record.Record{
		"name of a header too long":        {Headers: []record.Header{{Key: strings.Repeat("n", 256), Value: []byte("1")}}},
		"more headers than a client reads": many,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rabbitmq.ToPublishing(r)
			require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err), "%v", err)
		})
	}
}
