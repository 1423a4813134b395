package redisstream

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// entryID is the id of a stream's entry: "<ms>-<sequence>".
type entryID struct{ ms, seq uint64 }

func parseID(s string) (entryID, bool) {
	ms, seq, ok := strings.Cut(s, "-")
	if !ok {
		return entryID{}, false
	}
	var id entryID
	var err error
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err != nil {
		return entryID{}, false
	}
	if id.seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
		return entryID{}, false
	}
	return id, true
}

func (i entryID) String() string {
	var b [41]byte
	out := strconv.AppendUint(b[:0], i.ms, 10)
	out = append(out, '-')
	return string(strconv.AppendUint(out, i.seq, 10))
}

func (i entryID) less(other entryID) bool {
	return i.ms < other.ms || i.ms == other.ms && i.seq < other.seq
}

// after is the lowest id above i.
func (i entryID) after() entryID {
	if i.seq == math.MaxUint64 {
		return entryID{i.ms + 1, 0}
	}
	return entryID{i.ms, i.seq + 1}
}

// before is the highest id below i, for commands that begin behind an id.
func (i entryID) before() entryID {
	switch {
	case i.seq > 0:
		return entryID{i.ms, i.seq - 1}
	case i.ms > 0:
		return entryID{i.ms - 1, math.MaxUint64}
	default:
		return entryID{}
	}
}

// time is when the entry was added, by the server's clock; zero for an id that somebody made up.
func (i entryID) time() time.Time {
	if i.ms == 0 || i.ms > math.MaxInt64/uint64(time.Millisecond) {
		return time.Time{}
	}
	return time.UnixMilli(int64(i.ms))
}

// startAt is the id behind which a group begins that is to see everything from t on.
func startAt(t time.Time) entryID {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return entryID{ms: uint64(max(ms, 0))}.before()
}
