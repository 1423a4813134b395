package redisstream

// batch is how many entries to ask for at once. Redis has no limit in bytes for a read, so the size of entries is learned, and
// the number grows step by step.
type batch struct {
	most    int   // Entries.
	bytes   int64 // Of one batch; 0 means no limit.
	next    int
	average int64 // Bytes of an entry, leaning to the larger ones.
}

const (
	firstBatch = 32
	mostBatch  = 2048
)

// newBatch makes batches of at most an eighth of the route's bytes: one is being emitted while the next is read, which leaves room for
// the copies of the client.
func newBatch(window int, bytes int64) batch {
	most := max(1, min(window, mostBatch))
	return batch{most: most, bytes: bytes / 8, next: min(firstBatch, most)}
}

func (b *batch) count() int { return b.next }

// learn notes that a read gave so many entries of so many bytes.
func (b *batch) learn(entries int, bytes int64) {
	if entries == 0 {
		return
	}
	got := bytes / int64(entries)
	b.average = max(got, (7*b.average+got)/8)
	limit := b.most
	if b.bytes > 0 && b.average > 0 {
		limit = int(max(1, min(int64(b.most), b.bytes/b.average)))
	}
	if entries >= b.next {
		b.next *= 2
	}
	b.next = min(b.next, limit)
}
