package lane

import (
	"math/rand/v2"
	"time"
)

// Backoff is a pause that doubles with each failure, up to a longest one, and is spread by up to a half downwards, so that
// many lanes do not knock at the same instant. The zero value pauses not at all.
type Backoff struct {
	Initial time.Duration // The pause after the first failure.
	Max     time.Duration // The longest pause; less than Initial means Initial.
}

// After is the pause after the n-th failure in a row, n counted from 1.
func (b Backoff) After(n int) time.Duration {
	if b.Initial <= 0 {
		return 0
	}
	wait := b.Initial
	for i := 1; i < n && wait < b.Max; i++ {
		wait += min(wait, b.Max-wait)
	}
	if wait <= 1 {
		return wait
	}
	return wait - rand.N(wait/2)
}
