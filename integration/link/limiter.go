package link

import (
	"sync"
	"time"
)

// limiter spaces the bytes of one direction of a link. The zero value does not limit.
type limiter struct {
	mu   sync.Mutex
	rate int64     // bytes per second, 0 for no limit
	next time.Time // when all bytes reserved so far will have passed
}

func (l *limiter) limit(bytesPerSecond int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate, l.next = bytesPerSecond, time.Time{}
}

// chunk is how many bytes to read at once: at a low rate little, so that bytes pass evenly.
func (l *limiter) chunk() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate <= 0 {
		return bufferSize
	}
	return int(min(max(l.rate/100, 256), bufferSize))
}

// reserve returns when the last of the next n bytes has passed.
func (l *limiter) reserve(n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate <= 0 {
		return time.Time{}
	}
	if now := time.Now(); l.next.Before(now) {
		l.next = now
	}
	l.next = l.next.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
	return l.next
}
