package memory

import (
	"hash/fnv"
	"strconv"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/record"
)

// topic is guarded by its site's mutex.
type topic struct {
	site, name string
	lanes      []*stored
	groups     map[seat]*place
	readers    map[*reader]struct{} // To be woken.
}

// stored is the messages of one lane.
type stored struct {
	records  []*record.Record
	count    int // Of those that arrived; more than there are records if they are not kept.
	generate func(position int) *record.Record
	removed  map[string]struct{} // Positions of those that a Browsing has taken out.
}

// seat is one lane as one group sees it.
type seat struct {
	group string
	lane  int
}

// place is where a group stands in a lane, and who reads it.
type place struct {
	position int
	owner    *reader
}

func (l *stored) append(r *record.Record) {
	l.records = append(l.records, r)
	l.count++
}

// read gives up to n records from position on.
func (l *stored) read(position, n int) []*record.Record {
	if l.generate == nil {
		end := len(l.records)
		return l.records[min(position, end):min(position+n, end):end]
	}
	n = max(min(n, l.count-position), 0)
	records := make([]*record.Record, n)
	for i := range records {
		records[i] = l.generate(position + i)
	}
	return records
}

// start is the position at which a group begins that has none.
func (l *stored) start(from config.Start) int {
	switch {
	case from.Latest:
		return l.count
	case from.Time.IsZero():
		return 0
	}
	for i, r := range l.records {
		if !r.Time.Before(from.Time) {
			return i
		}
	}
	return len(l.records)
}

// place copies r to the end of a lane.
func (t *topic) place(r *record.Record, lane int) *record.Record {
	kept := *r
	kept.Source = record.Source{
		DataCenter: t.site, Topic: t.name,
		Lane: strconv.Itoa(lane), Position: strconv.Itoa(t.lanes[lane].count),
	}
	if kept.ID == "" {
		kept.ID = record.DeriveID(kept.Source)
	}
	return &kept
}

// laneOf goes by the key. A message without one keeps the number of its source's lane if there is one like it here.
func (t *topic) laneOf(r *record.Record) int {
	if len(t.lanes) == 1 {
		return 0
	}
	if r.Key != nil {
		h := fnv.New32a()
		h.Write(r.Key)
		return int(h.Sum32() % uint32(len(t.lanes)))
	}
	if n, err := strconv.Atoi(r.Source.Lane); err == nil && n >= 0 && n < len(t.lanes) {
		return n
	}
	return 0
}

func (t *topic) groupIn(group string, lane int, start config.Start) *place {
	at := seat{group, lane}
	p, ok := t.groups[at]
	if !ok {
		p = &place{position: t.lanes[lane].start(start)}
		t.groups[at] = p
	}
	return p
}
