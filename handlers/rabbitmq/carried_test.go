package rabbitmq_test

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

// The tables in ../README.md are made here, from the codecs: MQFERRY_UPDATE=1 go test ./handlers/rabbitmq -run Table
const (
	readme     = "../README.md"
	tableBegin = "<!-- begin: made by rabbitmq/carried_test.go -->\n"
	tableEnd   = "<!-- end -->\n"
)

// entry is a message as it lies in a broker: the names on the wire, and the record that a subscriber makes of it.
type entry struct {
	names  []string
	record *record.Record
}

// site holds messages, each at a position of its own, as the subscribers and publishers of its broker do.
type site struct {
	name string
	put  func(r *record.Record, position int) entry
}

func sites() []site {
	return []site{{"Kafka", kafka}, {"RabbitMQ", rabbit}, {"Redis", redis}}
}

func kafka(r *record.Record, position int) entry {
	var e entry
	if r.ID != "" {
		e.names = append(e.names, record.IDKey)
	}
	read := *r
	read.Headers = slices.Clone(r.Headers)
	for i := range read.Headers {
		e.names = append(e.names, read.Headers[i].Key)
		read.Headers[i].Type = record.Bytes
	}
	if types, ok := record.FoldTypes(r.Headers); ok {
		e.names = append(e.names, record.TypesHeader)
		read.Headers = record.TakeTypes(append(read.Headers, record.Header{Key: record.TypesHeader, Value: types}))
	}
	if read.Time.IsZero() {
		read.Time = time.UnixMilli(int64(position))
	}
	read.Source = record.Source{DataCenter: "a", Topic: "t", Lane: "0", Position: strconv.Itoa(position)}
	e.record = &read
	return e.identified()
}

func redis(r *record.Record, position int) entry {
	var e entry
	if fields, ok := record.FoldFields(r); ok {
		for i := 0; i < len(fields); i += 2 {
			e.names = append(e.names, fields[i])
		}
		e.record = record.UnfoldFields(fields)
	} else {
		metadata, payload := record.Fold(r)
		for name := range metadata {
			e.names = append(e.names, name)
		}
		if r.ID != "" {
			e.names = append(e.names, record.IDKey)
		}
		e.record = record.Unfold(r.ID, metadata, payload)
	}
	e.record.Source = record.Source{DataCenter: "b", Topic: "t", Position: strconv.Itoa(position) + "-0"}
	if e.record.Time.IsZero() {
		e.record.Time = time.UnixMilli(int64(position))
	}
	return e.identified()
}

func rabbit(r *record.Record, _ int) entry {
	return consumed(published(panics{}, r))
}

// consumed is what a subscriber has of a RabbitMQ message.
func consumed(d *amqp.Delivery) entry {
	e := entry{record: read(d)}
	for name := range d.Headers {
		e.names = append(e.names, name)
	}
	return e
}

// panics stands in for a test where there is none at hand.
type panics struct{}

func (panics) Errorf(format string, _ ...any) { panic(format) }
func (panics) FailNow()                       { panic("failed") }

func (e entry) identified() entry {
	if e.record.ID == "" {
		e.record.ID = record.DeriveID(e.record.Source)
	}
	return e
}

// row is one property of messages.
type row struct {
	name     string
	record   *record.Record           // one that has it
	delivery *amqp.Delivery           // instead: a RabbitMQ message that has it
	shows    func(*record.Record) any // how it shows
	forms    []string                 // the declared names in which it may travel
	only     []string                 // the only brokers where it begins; none: every one
	fields   bool                     // the record began as a Redis entry of any fields
}

func rows() []row {
	with := func(change func(*record.Record)) *record.Record {
		r := &record.Record{ID: "id", Value: []byte("value"), Time: time.Unix(1_600_000_000, 0)}
		change(r)
		return r
	}
	headers := func(hs ...record.Header) *record.Record {
		return with(func(r *record.Record) { r.Headers = hs })
	}
	header := func(name, value string) record.Header { return record.Header{Key: name, Value: []byte(value)} }
	key := func(r *record.Record) any { return r.Key }
	value := func(r *record.Record) any { return r.Value }
	list := func(r *record.Record) any { return r.Headers }
	id := func(r *record.Record) any { return r.ID }
	when := func(r *record.Record) any { return r.Time.UnixMilli() }
	foreign := record.UnfoldFields([]string{"temperature", "20", "payload", "\xff", "temperature", "21"})
	escaped := record.EscapedPrefix + record.KeyEntry
	order := []string{record.HeadersEntry}
	typed := []string{record.TypesHeader, record.HeadersEntry}
	others := []string{"Kafka", "Redis"}
	general := []row{
		{name: "payload, any bytes", record: with(func(r *record.Record) { r.Value = []byte("\xff\x00") }), shows: value},
		{name: "empty payload", record: with(func(r *record.Record) { r.Value = []byte{} }), shows: value},
		{name: "null payload (a tombstone)", record: with(func(r *record.Record) { r.Value = nil }), shows: value, forms: []string{record.NullEntry}},
		{name: "key, any bytes", record: with(func(r *record.Record) { r.Key = []byte("\xff\x00") }), shows: key, forms: []string{record.KeyEntry}},
		{name: "empty key, apart from none", record: with(func(r *record.Record) { r.Key = []byte{} }), shows: key, forms: []string{record.KeyEntry}},
		{name: "headers, any bytes, in sorted order", record: headers(header("a", "\xff"), header("b\x00", "2")), shows: list, forms: order},
		{name: "headers in another order", record: headers(header("b", "1"), header("a", "2")), shows: list, forms: order},
		{name: "repeated headers", record: headers(header("a", "1"), header("a", "2")), shows: list, forms: order},
		{name: "null headers", record: headers(record.Header{Key: "a"}), shows: list, forms: order},
		{
			name: "headers of the types of AMQP", shows: list, forms: typed,
			record: headers(record.Header{Key: "a", Value: []byte("7"), Type: record.Int32}, record.Header{Key: "b", Value: []byte("[]"), Type: record.Array}),
		},
		{name: "a header called `mqferry_key`", record: headers(header(record.KeyEntry, "1")), shows: list, forms: []string{escaped}},
		{name: "a header called `CC`", record: headers(header("CC", "1")), shows: list, forms: []string{record.EscapedPrefix + "CC"}, only: others},
		{name: "time, in milliseconds", record: with(func(r *record.Record) { r.Time = time.UnixMilli(1_600_000_000_123) }), shows: when, forms: []string{record.TimeEntry}},
		{name: "time, in whole seconds", record: with(func(*record.Record) {}), shows: when, forms: []string{record.TimeEntry}},
		{
			name: "time of an entry, from its entry id", record: with(func(r *record.Record) { r.Time = time.Time{} }),
			shows: when, forms: []string{record.TimeEntry}, only: []string{"Redis"},
		},
		{name: "message id", record: with(func(*record.Record) {}), shows: id, forms: []string{record.IDKey}},
		{name: "derived id of a message without one", record: with(func(r *record.Record) { r.ID = "" }), shows: id, forms: []string{record.IDKey}, only: others},
		{name: "entry of any fields", record: foreign, shows: list, forms: []string{record.FieldsHeader}, fields: true},
		{name: "its derived id", record: foreign, shows: id, forms: []string{record.IDKey}, fields: true},
		{name: "its time, from its entry id", record: foreign, shows: when, forms: []string{record.TimeEntry}, fields: true},
	}
	return append(general, amqpRows()...)
}

// amqpRows are those of what begins in RabbitMQ.
func amqpRows() []row {
	var all []row
	add := func(name, form string, change func(*amqp.Delivery)) {
		d := delivered(amqp.Publishing{
			Headers: amqp.Table{record.IDKey: "id"}, MessageId: "id", Timestamp: time.Unix(1_600_000_000, 0), DeliveryMode: amqp.Persistent, Body: []byte("value"),
		})
		change(d)
		shows := func(r *record.Record) any {
			for _, h := range r.Headers {
				if h.Key == form {
					return h
				}
			}
			return nil
		}
		all = append(all, row{name: name, delivery: d, shows: shows, forms: []string{form}})
	}
	add("content-type", record.ContentTypeEntry, func(d *amqp.Delivery) { d.ContentType = "text/plain" })
	add("content-encoding", record.ContentEncodingEntry, func(d *amqp.Delivery) { d.ContentEncoding = "gzip" })
	add("priority", record.PriorityEntry, func(d *amqp.Delivery) { d.Priority = 5 })
	add("correlation-id", record.CorrelationIDEntry, func(d *amqp.Delivery) { d.CorrelationId = "c" })
	add("reply-to", record.ReplyToEntry, func(d *amqp.Delivery) { d.ReplyTo = "r" })
	add("expiration", record.ExpirationEntry, func(d *amqp.Delivery) { d.Expiration = "60000" })
	add("type", record.TypeEntry, func(d *amqp.Delivery) { d.Type = "t" })
	add("app-id", record.AppIDEntry, func(d *amqp.Delivery) { d.AppId = "a" })
	add("message-id, without the header of the same", record.MessageIDEntry, func(d *amqp.Delivery) { d.Headers = nil })
	add("the header, without message-id", record.MessageIDEntry, func(d *amqp.Delivery) { d.MessageId = "" })
	add("no timestamp", record.TimestampEntry, func(d *amqp.Delivery) { d.Timestamp = time.Time{} })
	add("a timestamp that is no Unix time", record.TimestampEntry, func(d *amqp.Delivery) { d.Timestamp = time.Unix(-5, 0) })
	add("user-id", record.UserIDEntry, func(d *amqp.Delivery) { d.UserId = "guest" })
	add("transient", record.DeliveryModeEntry, func(d *amqp.Delivery) { d.DeliveryMode = amqp.Transient })
	add("the header `CC`", record.CCEntry, func(d *amqp.Delivery) { d.Headers["CC"] = []any{"other"} })
	add("the header `BCC`", record.BCCEntry, func(d *amqp.Delivery) { d.Headers["BCC"] = []any{"other"} })
	add("a header called `mqferry_type`", record.EscapedPrefix+record.TypeEntry, func(d *amqp.Delivery) { d.Headers[record.TypeEntry] = "t" })
	add("exchange, unless the default one", record.ExchangeEntry, func(d *amqp.Delivery) { d.Exchange = "events" })
	add("routing key, unless the queue's name", record.RoutingKeyEntry, func(d *amqp.Delivery) { d.Exchange, d.RoutingKey = "events", "a.b" })
	return all
}

// at gives the property as it lies in a broker; false if it cannot begin there.
func (c row) at(s site) (entry, bool) {
	switch {
	case c.delivery != nil && s.name == "RabbitMQ":
		return consumed(c.delivery), true
	case c.delivery != nil:
		return s.put(read(c.delivery), 2), true
	case c.only != nil && !slices.Contains(c.only, s.name):
		return entry{}, false
	case c.fields && s.name != "Redis":
		return s.put(redis(c.record, 1).record, 2), true
	}
	return s.put(c.record, 2), true
}

// cell says in what form a property gets from one broker to the other.
func (c row) cell(source entry, to site) string {
	destination := to.put(source.record, 3)
	if !reflect.DeepEqual(c.shows(source.record), c.shows(destination.record)) {
		return "**no**"
	}
	cell := "as it is"
	for _, form := range c.forms {
		before, after := slices.Contains(source.names, form), slices.Contains(destination.names, form)
		if after && !before {
			return "in `" + form + "`"
		}
		if before && !after {
			cell = "from `" + form + "`"
		}
	}
	return cell
}

func tables() string {
	var b strings.Builder
	for _, from := range sites() {
		b.WriteString("\n### From " + from.name + "\n\n| property |")
		for _, to := range sites() {
			b.WriteString(" to " + to.name + " |")
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(sites())) + "\n")
		for _, c := range rows() {
			source, ok := c.at(from)
			if !ok {
				continue
			}
			line, plain := "| "+c.name+" |", true
			for _, to := range sites() {
				cell := c.cell(source, to)
				line, plain = line+" "+cell+" |", plain && cell == "as it is"
			}
			if c.delivery == nil || !plain { // Elsewhere it is a header like any other.
				b.WriteString(line + "\n")
			}
		}
	}
	return b.String() + "\n"
}

func TestTableOfWhatIsCarriedIsWhatTheCodecsDo(t *testing.T) {
	page, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), tableBegin)
	require.True(t, ok, "%s has no line %q", readme, tableBegin)
	documented, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no line %q", readme, tableEnd)
	if os.Getenv("MQFERRY_UPDATE") != "" {
		page := before + tableBegin + tables() + tableEnd + after
		require.NoError(t, os.WriteFile(readme, []byte(page), 0o644))
		return
	}
	require.Equal(t, tables(), documented, "write it anew with MQFERRY_UPDATE=1")
}

func TestEveryDeclaredNameIsInTheTable(t *testing.T) {
	documented := tables()
	inTable := func(t *rapid.T, name string) {
		if strings.HasPrefix(name, "mqferry_") {
			require.Contains(t, documented, "`"+name+"`")
		}
	}
	plain := []string{"a", "b"}
	rapid.Check(t, func(t *rapid.T) {
		r := read(anyDelivery(plain...).Draw(t, "message"))
		for _, to := range sites() {
			for _, name := range to.put(r, 1).names {
				inTable(t, name)
			}
		}
		other := anyRecord().Draw(t, "record")
		for i := range other.Headers {
			other.Headers[i].Key = rapid.SampledFrom(plain).Draw(t, "name")
		}
		for _, to := range sites() {
			for _, name := range to.put(other, 1).names {
				inTable(t, name)
			}
		}
	})
}

// What a RabbitMQ message is must survive any way through the other brokers.
func TestAnyMessageComesBackFromTheOtherBrokers(t *testing.T) {
	names := append(escapedNames(ownNames...), "CC", record.EscapedPrefix+"CC", record.EscapedPrefix+record.KeyEntry, record.TypesHeader, record.FieldsHeader)
	rapid.Check(t, func(t *rapid.T) {
		d := anyDelivery(names...).Draw(t, "message")
		r := read(d)
		if r.ID == "" { // The other brokers would give it one.
			return
		}
		want := published(t, r)
		requireDelivered(t, want, published(t, kafka(r, 1).record))
		requireDelivered(t, want, published(t, redis(r, 1).record))
		requireDelivered(t, want, published(t, kafka(redis(kafka(r, 1).record, 2).record, 3).record))
	})
}
