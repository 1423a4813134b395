package redisstream

import (
	"maps"
	"slices"
	"strings"

	"github.com/mqferry/mqferry/handlers/record"
)

// In the format fields an entry has the fields _watermill_message_uuid, one for each header, in order, those with the names
// that record.Fold declares for what fields cannot hold, record.FieldsHeader with the name of the payload's field, and that field, last. A null
// payload has no field. Whatever the reader meets with a FieldsHeader that fits is a record of this format again; all else is an entry of any shape.

// reservedPrefix begins the names that are declared.
const reservedPrefix = "mqferry_"

// spread gives the fields of r but that of the payload.
func spread(r *record.Record, payloadName string) []string {
	fields := make([]string, 0, 2*len(r.Headers)+10)
	if r.ID != "" {
		fields = append(fields, record.IDKey, r.ID)
	}
	folded := *r
	if plainHeaders(r.Headers) {
		folded.Headers = nil
		for i := range r.Headers {
			name := escapeName(r.Headers[i].Key, payloadName, true)
			fields = append(fields, name, string(r.Headers[i].Value))
		}
	}
	metadata, _ := record.Fold(&folded)
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		fields = append(fields, escapeName(name, payloadName, false), metadata[name])
	}
	return append(fields, record.FieldsHeader, payloadName)
}

// plainHeaders reports whether fields hold all of the headers: they have no nulls and no types.
func plainHeaders(headers []record.Header) bool {
	for i := range headers {
		if headers[i].Value == nil || headers[i].Type != record.Bytes {
			return false
		}
	}
	return true
}

// gather gives the record that spread made the fields from, and nil when they are not of this format.
func gather(fields []string) *record.Record {
	payloadName, ok := single(fields, record.FieldsHeader)
	if !ok || payloadName == "" || payloadName == record.IDKey || strings.HasPrefix(payloadName, reservedPrefix) {
		return nil
	}
	payload, hasPayload := single(fields, payloadName)
	if _, null := single(fields, record.NullEntry); null == hasPayload {
		return nil
	}
	_, listed := single(fields, record.HeadersEntry)
	var id string
	var headers []record.Header
	metadata := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		switch name, value := fields[i], fields[i+1]; {
		case name == record.FieldsHeader || name == payloadName:
		case name == record.IDKey && id == "":
			id = value
		case listed || declaredField(name):
			name = unescapeName(name, payloadName, !listed)
			if _, again := metadata[name]; again {
				return nil
			}
			metadata[name] = value
		default:
			headers = append(headers, record.Header{Key: unescapeName(name, payloadName, true), Value: []byte(value)})
		}
	}
	r := record.Unfold(id, metadata, []byte(payload))
	if listed {
		if again, _ := record.Fold(r); !maps.Equal(again, metadata) {
			return nil
		}
		return r
	}
	if len(r.Headers) > 0 {
		return nil // A declared name holds what is never written there.
	}
	r.Headers = headers
	return r
}

// single gives the value of the only field of a name.
func single(fields []string, name string) (value string, ok bool) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != name {
			continue
		}
		if ok {
			return "", false
		}
		value, ok = fields[i+1], true
	}
	return value, ok
}

// declaredField reports whether a field of this name holds something else than a header.
func declaredField(name string) bool {
	switch name {
	case record.KeyEntry, record.NullEntry, record.TimeEntry, record.HeadersEntry, record.FieldsHeader:
		return true
	}
	return false
}

// taken reports whether a name, escaped any number of times, is one that a header cannot have. Those that record.Fold declares are among
// them unless it has escaped them already.
func taken(name, payloadName string, declared bool) bool {
	for {
		rest, ok := strings.CutPrefix(name, record.EscapedPrefix)
		if !ok {
			break
		}
		name = rest
	}
	return name == record.IDKey || name == record.FieldsHeader || name == payloadName || declared && declaredField(name)
}

func escapeName(name, payloadName string, declared bool) string {
	if taken(name, payloadName, declared) {
		return record.EscapedPrefix + name
	}
	return name
}

func unescapeName(name, payloadName string, declared bool) string {
	if rest, ok := strings.CutPrefix(name, record.EscapedPrefix); ok && taken(rest, payloadName, declared) {
		return rest
	}
	return name
}
