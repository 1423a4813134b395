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
	if r.Key != nil {
		metadata[KeyEntry] = string(r.Key)
	}
	if r.Value == nil {
		metadata[NullEntry] = "1"
	}
	if !r.Time.IsZero() {
		metadata[TimeEntry] = formatTime(r.Time)
	}
	if !plain(r.Headers) {
		metadata[HeadersEntry] = formatHeaders(r.Headers)
	}
	return metadata, r.Value
}

// Unfold gives the record of a Watermill entry, whether Fold made it or an application did. Metadata that was changed
// after Fold wins for its name, by the rules of Outgoing; without a list of headers they come in sorted order. An
// entry under a declared name that cannot be read is an ordinary header. Metadata under IDKey gives the id if id is
// empty. Time is zero unless declared, Source is left to the caller, and payload becomes the record's.
func Unfold(id string, metadata map[string]string, payload []byte) *Record {
	r := &Record{ID: id, Value: payload}
	if r.Value == nil {
		r.Value = []byte{}
	}
	names := make(map[string]string, len(metadata))
	folded := isFolded(metadata)
	var listed []Header
	for k, v := range metadata {
		switch {
		case strings.HasPrefix(k, reservedPrefix):
			if k == HeadersEntry && readable(k, v) {
				listed, _ = parseHeaders(v)
			} else if !r.take(k, v) {
				names[unescape(k, folded)] = v
			}
		case k != IDKey:
			names[k] = v
		case r.ID == "":
			r.ID = v
		}
	}
	if v, ok := metadata[IDKey]; ok && v != r.ID {
		keepSecondID(names, v)
	}
	r.Headers = merge(fill(listed, names), names)
	return r
}

// take puts a declared entry into its place in r and reports whether it was one.
func (r *Record) take(k, v string) bool {
	if !readable(k, v) {
		return false
	}
	switch k {
	case KeyEntry:
		r.Key = []byte(v)
	case NullEntry:
		if len(r.Value) == 0 {
			r.Value = nil
		}
	case TimeEntry:
		r.Time, _ = parseTime(v)
	}
	return true
}

// readable reports whether an entry is a declared one that Fold could have written.
func readable(k, v string) bool {
	switch k {
	case KeyEntry:
		return true
	case NullEntry:
		return v == "1"
	case TimeEntry:
		_, ok := parseTime(v)
		return ok
	case HeadersEntry:
		_, ok := parseHeaders(v)
		return ok
	}
	return false
}

// isFolded reports whether every reserved name in metadata is one that Fold writes. If not, no name is taken for an
// escaped one: two names must never become one header.
func isFolded(metadata map[string]string) bool {
	for k, v := range metadata {
		if !strings.HasPrefix(k, EscapedPrefix) {
			if isReserved(k) && !readable(k, v) {
				return false
			}
		} else if !isReserved(k[len(EscapedPrefix):]) {
			return false
		}
	}
	return true
}

// keepSecondID keeps an id in the metadata beside the entry's own as a header of another name.
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

func isReserved(name string) bool {
	switch name {
	case KeyEntry, NullEntry, TimeEntry, HeadersEntry:
		return true
	}
	return strings.HasPrefix(name, EscapedPrefix)
}

func escape(name string) string {
	if isReserved(name) {
		return EscapedPrefix + name
	}
	return name
}

func unescape(name string, folded bool) string {
	if folded {
		return strings.TrimPrefix(name, EscapedPrefix)
	}
	return name
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

func parseTime(s string) (time.Time, bool) {
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
