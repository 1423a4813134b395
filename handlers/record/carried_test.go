package record_test

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mqferry/mqferry/handlers/record"
)

// The table in ../README.md is made here, from the codecs: MQFERRY_UPDATE=1 go test ./handlers/record -run Table
const (
	readme     = "../README.md"
	tableBegin = "<!-- begin: made by record/carried_test.go -->\n"
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

func kafka(r *record.Record, position int) entry {
	var e entry
	if r.ID != "" {
		e.names = append(e.names, record.IDKey)
	}
	for _, h := range r.Headers {
		e.names = append(e.names, h.Key)
	}
	read := *r
	e.record = &read
	e.record.Source = record.Source{DataCenter: "a", Topic: "t", Lane: "0", Position: strconv.Itoa(position)}
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

func memory(r *record.Record, position int) entry {
	read := *r
	e := entry{record: &read}
	e.record.Source = record.Source{DataCenter: "c", Topic: "t", Position: strconv.Itoa(position)}
	return e.identified()
}

func (e entry) identified() entry {
	if e.record.ID == "" {
		e.record.ID = record.DeriveID(e.record.Source)
	}
	return e
}

// row is one property of messages.
type row struct {
	name   string
	record *record.Record           // one that has it
	shows  func(*record.Record) any // how it shows
	forms  []string                 // the declared names in which it may travel
	only   string                   // the only broker where it begins; empty: every one
	fields bool                     // the record began as a Redis entry of any fields
}

func rows() []row {
	with := func(change func(*record.Record)) *record.Record {
		r := &record.Record{ID: "id", Value: []byte("value"), Time: time.UnixMilli(1_600_000_000_000)}
		change(r)
		return r
	}
	headers := func(hs ...record.Header) *record.Record {
		return with(func(r *record.Record) { r.Headers = hs })
	}
	key := func(r *record.Record) any { return r.Key }
	value := func(r *record.Record) any { return r.Value }
	list := func(r *record.Record) any { return r.Headers }
	id := func(r *record.Record) any { return r.ID }
	when := func(r *record.Record) any { return r.Time.UnixMilli() }
	foreign := record.UnfoldFields([]string{"temperature", "20", "payload", "\xff", "temperature", "21"})
	escaped := record.EscapedPrefix + record.KeyEntry
	order := []string{record.HeadersEntry}
	return []row{
		{name: "payload, any bytes", record: with(func(r *record.Record) { r.Value = []byte("\xff\x00") }), shows: value},
		{name: "empty payload", record: with(func(r *record.Record) { r.Value = []byte{} }), shows: value},
		{name: "null payload (a tombstone)", record: with(func(r *record.Record) { r.Value = nil }), shows: value, forms: []string{record.NullEntry}},
		{name: "key, any bytes", record: with(func(r *record.Record) { r.Key = []byte("\xff\x00") }), shows: key, forms: []string{record.KeyEntry}},
		{name: "empty key, apart from none", record: with(func(r *record.Record) { r.Key = []byte{} }), shows: key, forms: []string{record.KeyEntry}},
		{name: "headers, any bytes, in sorted order", record: headers(header("a", "\xff"), header("b\x00", "2")), shows: list, forms: order},
		{name: "headers in another order", record: headers(header("b", "1"), header("a", "2")), shows: list, forms: order},
		{name: "repeated headers", record: headers(header("a", "1"), header("a", "2")), shows: list, forms: order},
		{name: "null headers", record: headers(record.Header{Key: "a"}), shows: list, forms: order},
		{name: "a header called `mqferry_key`", record: headers(header(record.KeyEntry, "1")), shows: list, forms: []string{escaped}},
		{name: "time", record: with(func(*record.Record) {}), shows: when, forms: []string{record.TimeEntry}},
		{
			name: "time of an entry, from its entry id", record: with(func(r *record.Record) { r.Time = time.Time{} }),
			shows: when, forms: []string{record.TimeEntry}, only: "Redis",
		},
		{name: "message id", record: with(func(*record.Record) {}), shows: id, forms: []string{record.IDKey}},
		{name: "derived id of a message without one", record: with(func(r *record.Record) { r.ID = "" }), shows: id, forms: []string{record.IDKey}},
		{name: "entry of any fields", record: foreign, shows: list, forms: []string{record.FieldsHeader}, fields: true},
		{name: "its derived id", record: foreign, shows: id, forms: []string{record.IDKey}, fields: true},
		{name: "its time, from its entry id", record: foreign, shows: when, forms: []string{record.TimeEntry}, fields: true},
	}
}

// cell says in what form a property gets from one broker to the other.
func cell(c row, from, to site) string {
	if c.only != "" && c.only != from.name {
		return "–"
	}
	r := c.record
	if c.fields && from.name != "Redis" {
		r = redis(r, 1).record
	}
	source := from.put(r, 2)
	destination := to.put(source.record, 3)
	if !reflect.DeepEqual(c.shows(source.record), c.shows(destination.record)) {
		return "**no**"
	}
	for _, form := range c.forms {
		before, after := slices.Contains(source.names, form), slices.Contains(destination.names, form)
		if after && !before {
			return "in `" + form + "`"
		}
		if before && !after {
			return "from `" + form + "`"
		}
	}
	return "as it is"
}

func table() string {
	kafka, redis, memory := site{"Kafka", kafka}, site{"Redis", redis}, site{"memory", memory}
	pairs := [][2]site{{kafka, kafka}, {kafka, redis}, {redis, kafka}, {redis, redis}, {memory, memory}}
	var b strings.Builder
	b.WriteString("| property |")
	for _, p := range pairs {
		b.WriteString(" " + p[0].name + " → " + p[1].name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(pairs)) + "\n")
	for _, c := range rows() {
		b.WriteString("| " + c.name + " |")
		for _, p := range pairs {
			b.WriteString(" " + cell(c, p[0], p[1]) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTableOfWhatIsCarriedIsWhatTheCodecsDo(t *testing.T) {
	page, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), tableBegin)
	require.True(t, ok, "%s has no line %q", readme, tableBegin)
	documented, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no line %q", readme, tableEnd)
	if os.Getenv("MQFERRY_UPDATE") != "" {
		page := before + tableBegin + table() + tableEnd + after
		require.NoError(t, os.WriteFile(readme, []byte(page), 0o644))
		return
	}
	require.Equal(t, table(), documented, "write it anew with MQFERRY_UPDATE=1")
}

func TestEveryDeclaredNameIsInTheTable(t *testing.T) {
	documented := table()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		own := record.Metadata(r)
		for _, name := range redis(r, 1).names {
			bare := strings.TrimPrefix(name, record.EscapedPrefix)
			if _, theirs := own[name]; theirs || !strings.HasPrefix(name, "mqferry_") {
				continue
			}
			if _, theirs := own[bare]; theirs {
				continue
			}
			require.Contains(t, documented, "`"+name+"`")
		}
	})
}
