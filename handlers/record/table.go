package record

import (
	"slices"
	"strings"
)

// FoldTable is Fold for a broker that keeps headers in a table of typed values, each name once. Stored tells what a
// reader gets back of a header: h itself if the table can hold it. The entries are new, what they point to is r's.
func FoldTable(r *Record, stored func(h Header) Header) []Header {
	entries := make([]Header, 0, len(r.Headers)+4)
	x := newIndex(r.Headers)
	ordered, exact := ascending(r.Headers), true
	for i := range r.Headers {
		h := &r.Headers[i]
		if !ordered && x.last(h.Key) != i {
			continue
		}
		e := stored(*h)
		exact = exact && same(e, *h)
		e.Key = escape(e.Key)
		entries = append(entries, e)
	}
	declare(r, ordered && exact, stored, func(name string, value []byte) {
		entries = append(entries, Header{Key: name, Value: value})
	})
	return entries
}

// UnfoldTable gives the record of a table's entries, in any order, by the rules of Unfold. The entries become the
// record's headers and are sorted in place; two of one name must not be among them. ID and Source are left to the caller.
func UnfoldTable(entries []Header, payload []byte, stored func(h Header) Header) *Record {
	r := &Record{}
	d := declared{}
	if slices.ContainsFunc(entries, func(h Header) bool { return strings.HasPrefix(h.Key, reservedPrefix) }) {
		entries, d = takeDeclared(r, entries)
	}
	d.fill(r, payload)
	if !ascending(entries) {
		slices.SortFunc(entries, byName)
	}
	r.Headers = entries
	if !d.list {
		return r
	}
	names := make(map[string]Header, len(entries))
	for _, e := range entries {
		names[e.Key] = e
	}
	unchanged := func(h *Header, now Header) bool { return same(stored(*h), now) }
	itself := func(_ string, now Header) Header { return now }
	r.Headers = merge(listed(d.headers, names, itself), names, unchanged, itself)
	return r
}

// takeDeclared takes the declared entries out of entries, the key into r.
func takeDeclared(r *Record, entries []Header) ([]Header, declared) {
	d := readDeclared(func(name string) (string, bool) {
		for i := range entries {
			if entries[i].Key == name {
				return string(entries[i].Value), true
			}
		}
		return "", false
	})
	kept := entries[:0]
	for _, e := range entries {
		name, ok := d.header(e.Key)
		switch {
		case ok:
			e.Key = name
			kept = append(kept, e)
		case e.Key == KeyEntry && e.Value == nil:
			r.Key = []byte{}
		case e.Key == KeyEntry:
			r.Key = e.Value
		}
	}
	return kept, d
}

func ascending(headers []Header) bool {
	for i := 1; i < len(headers); i++ {
		if headers[i-1].Key >= headers[i].Key {
			return false
		}
	}
	return true
}
