package redisstream

import (
	"github.com/mqferry/mqferry/handlers/record"
)

// The fields of an entry in the format of watermill-redisstream, beside record.IDKey.
const (
	metadataField = "metadata"
	payloadField  = "payload"
)

// decode gives the record of an entry: in Watermill's format when it has just those fields, in the format fields when it says so, otherwise as an
// entry of any shape.
func decode(source record.Source, id entryID, fields []string) *record.Record {
	source.Position = id.String()
	r := decodeWatermill(fields)
	if r == nil {
		r = gather(fields)
	}
	if r == nil {
		r = record.UnfoldFields(fields)
	}
	r.Source = source
	if r.ID == "" {
		r.ID = record.DeriveID(source)
	}
	if r.Time.IsZero() {
		r.Time = id.time()
	}
	return r
}

func decodeWatermill(fields []string) *record.Record {
	if len(fields) < 4 || len(fields) > 6 {
		return nil
	}
	var id, payload, metadata *string
	for i := 0; i+1 < len(fields); i += 2 {
		var at **string
		switch fields[i] {
		case record.IDKey:
			at = &id
		case payloadField:
			at = &payload
		case metadataField:
			at = &metadata
		default:
			return nil
		}
		if *at != nil {
			return nil
		}
		*at = &fields[i+1]
	}
	if id == nil || payload == nil {
		return nil
	}
	var m map[string]string
	if metadata != nil {
		var ok bool
		if m, ok = parseMap(*metadata); !ok {
			return nil
		}
	}
	return record.Unfold(*id, m, []byte(*payload))
}

// encoded is an entry to be written: the payload apart, since it is bytes. Without the name of its field there is none.
type encoded struct {
	fields      []string
	payloadName string
	payload     []byte
}

// encode gives the entry for r. What was an entry of any shape is that again, in either format.
func (c DestinationConfig) encode(r *record.Record) encoded {
	if fields, ok := record.FoldFields(r); ok {
		return encoded{fields: fields}
	}
	if c.Format == FieldsFormat {
		e := encoded{fields: spread(r, c.PayloadField)}
		if r.Value != nil {
			e.payloadName, e.payload = c.PayloadField, r.Value
		}
		return e
	}
	return folded(r)
}

// folded gives the entry in Watermill's format.
func folded(r *record.Record) encoded {
	metadata, payload := record.Fold(r)
	fields := []string{record.IDKey, r.ID, metadataField, string(appendMap(nil, metadata))}
	return encoded{fields: fields, payloadName: payloadField, payload: payload}
}
