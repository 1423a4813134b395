package demo

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// columns is how wide the line of progress may be on a terminal.
const columns = 79

// screen is where the demo tells what happens: lines that stay, and one line of progress. Safe for concurrent use.
type screen struct {
	out      io.Writer
	terminal bool
	every    time.Duration // How often the line of progress is written.

	mu sync.Mutex
}

func newScreen(out io.Writer, terminal bool) *screen {
	if terminal {
		return &screen{out: out, terminal: true, every: 100 * time.Millisecond}
	}
	return &screen{out: out, every: time.Second}
}

// say writes a line that stays.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
	fmt.Fprintf(s.out, format+"\n", args...)
}

// progress writes the line of progress: over the last one on a terminal, below it elsewhere.
func (s *screen) progress(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		// A line that wraps could not be written over.
		if shown := []rune(line); len(shown) >= columns {
			line = string(shown[:columns-1]) + "…"
		}
		fmt.Fprint(s.out, "\r", line, "\x1b[K")
		return
	}
	fmt.Fprintln(s.out, line)
}

// watch writes line's progress until stop is closed.
func (s *screen) watch(stop <-chan struct{}, line func() string) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			s.progress(line())
		}
	}
}

// grouped writes 1234567 as 1,234,567.
func grouped[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
