package record

import (
	"strconv"
	"strings"
	"time"
)

// The metadata entries in which Fold declares what a Watermill entry has no place for.
const (
	// KeyEntry holds the key's bytes. An application may set it to give a message a key.
	KeyEntry = "mqferry_key"
	// NullEntry is "1" for a null value. It counts only while the payload is empty.
	NullEntry = "mqferry_null"
	// TimeEntry holds the time as Unix milliseconds, with six more digits after a dot if it is finer than that.
	TimeEntry = "mqferry_time"
	// HeadersEntry holds order, repeats, nulls and types of the headers where a map of strings cannot.
	HeadersEntry = "mqferry_headers"
	// EscapedPrefix stands before the name of a header that would otherwise be taken for one of these entries.
	EscapedPrefix = "mqferry_escaped_"
)

const reservedPrefix = "mqferry_"

// Fold gives r as the metadata and payload of a Watermill entry; the id goes where Watermill keeps it. Headers are
// ordinary metadata, so an application on the stock package sees them as usual (the last one of a repeated name);
// whatever does not fit is added under the names declared above. The map is new, the payload is r's own and nil for
// null: it is written as an empty one. Unfold gives back the same record.
func Fold(r *Record) (metadata map[string]string, payload []byte) {
	metadata = make(map[string]string, len(r.Headers)+4)
	for i := range r.Headers {
		metadata[escape(r.Headers[i].Key)] = string(r.Headers[i].Value)
	}
	declare(r, plain(r.Headers, untyped), untyped, func(name string, value []byte) { metadata[name] = string(value) })
	return metadata, r.Value
}

// untyped is what a map of strings keeps of a header.
func untyped(h Header) Header {
	if h.Value == nil {
		h.Value = []byte{}
	}
	h.Type = Bytes
	return h
}

// declare puts what r has beside its headers, and the list of those unless they are plain.
func declare(r *Record, plain bool, stored func(Header) Header, put func(name string, value []byte)) {
	if r.Key != nil {
		put(KeyEntry, r.Key)
	}
	if r.Value == nil {
		put(NullEntry, []byte("1"))
	}
	if !r.Time.IsZero() {
		put(TimeEntry, []byte(formatTime(r.Time)))
	}
	if !plain {
		put(HeadersEntry, formatHeaders(r.Headers, stored))
	}
}

// Unfold gives the record of a Watermill entry, whether Fold made it or an application did. Metadata that was changed
// after Fold wins for its name, by the rules of Outgoing; without a list of headers they come in sorted order. An
// entry under a declared name that cannot be read is an ordinary header. Metadata under IDKey gives the id if id is
// empty. Time is zero unless declared, Source is left to the caller, and payload becomes the record's.
func Unfold(id string, metadata map[string]string, payload []byte) *Record {
	r := &Record{ID: id}
	d := declared{}
	if len(metadata) > 0 {
		d = readDeclared(func(name string) (string, bool) {
			v, ok := metadata[name]
			return v, ok
		})
	}
	d.fill(r, payload)
	if d.key {
		r.Key = []byte(metadata[KeyEntry])
	}
	if len(metadata) == 0 {
		return r
	}
	names := make(map[string]string, len(metadata))
	for k, v := range metadata {
		if name, ok := d.header(k); ok && k != IDKey {
			names[name] = v
		}
	}
	if second, ok := metadata[IDKey]; ok && r.ID == "" {
		r.ID = second
	} else if ok && second != r.ID {
		keepSecondID(names, second)
	}
	r.Headers = merge(listed(d.headers, names, bytesHeader), names, sameText, bytesHeader)
	return r
}

// declared is what of an entry's metadata Fold could have added.
type declared struct {
	key, null, timed, list bool

	time    time.Time
	headers []listedHeader
	// strange is set when a declared name holds what Fold never writes. Then no name is taken for an escaped one:
	// two names must never become one header.
	strange bool
}

func readDeclared(get func(name string) (string, bool)) declared {
	var d declared
	_, d.key = get(KeyEntry)
	if v, ok := get(NullEntry); ok {
		d.null = v == "1"
		d.strange = !d.null
	}
	if v, ok := get(TimeEntry); ok {
		d.time, d.timed = ParseTime(v)
		d.strange = d.strange || !d.timed
	}
	if v, ok := get(HeadersEntry); ok {
		d.headers, d.list = parseHeaders(v)
		d.strange = d.strange || !d.list
	}
	return d
}

// fill puts value and time into r.
func (d *declared) fill(r *Record, payload []byte) {
	r.Value, r.Time = payload, d.time
	switch {
	case d.null && len(payload) == 0:
		r.Value = nil
	case payload == nil:
		r.Value = []byte{}
	}
}

// header gives the name of the header that the entry called k is; false for a declared entry.
func (d *declared) header(k string) (name string, ok bool) {
	switch {
	case k == KeyEntry,
		k == NullEntry && d.null,
		k == TimeEntry && d.timed,
		k == HeadersEntry && d.list:
		return "", false
	case d.strange:
		return k, true
	}
	return unescape(k), true
}

// keepSecondID keeps an id that was in the metadata, beside the entry's own, as a header of another name.
func keepSecondID(names map[string]string, id string) {
	name := EscapedPrefix + IDKey
	for {
		if _, taken := names[name]; !taken {
			names[name] = id
			return
		}
		name = EscapedPrefix + name
	}
}

func escape(name string) string {
	if isReserved(name) {
		return EscapedPrefix + name
	}
	return name
}

func unescape(name string) string {
	if rest, ok := strings.CutPrefix(name, EscapedPrefix); ok && isReserved(rest) {
		return rest
	}
	return name
}

// isReserved reports whether a header's name is a declared one, escaped any number of times: those, and only those,
// are escaped once more, so that escaping can be undone.
func isReserved(name string) bool {
	if !strings.HasPrefix(name, reservedPrefix) {
		return false
	}
	switch unescaped(name) {
	case KeyEntry, NullEntry, TimeEntry, HeadersEntry:
		return true
	}
	return false
}

func unescaped(name string) string {
	for {
		rest, ok := strings.CutPrefix(name, EscapedPrefix)
		if !ok {
			return name
		}
		name = rest
	}
}

// formatTime does without a calendar: a Kafka timestamp may lie beyond any year that RFC 3339 can write.
func formatTime(t time.Time) string {
	ms := strconv.FormatInt(t.UnixMilli(), 10)
	rest := t.Nanosecond() % int(time.Millisecond)
	if rest == 0 {
		return ms
	}
	return ms + "." + strconv.Itoa(int(time.Millisecond) + rest)[1:]
}

// ParseTime reads the text of a TimeEntry.
func ParseTime(s string) (time.Time, bool) {
	whole, rest, fine := strings.Cut(s, ".")
	ms, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if !fine {
		return time.UnixMilli(ms), true
	}
	ns, err := strconv.ParseUint(rest, 10, 32)
	if err != nil || len(rest) != 6 {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).Add(time.Duration(ns)), true
}
