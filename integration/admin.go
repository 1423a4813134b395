package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Metric asks for a metric of a route, such as "mqferry_messages_confirmed_total"; it is 0 while the program does not answer yet, or
// does not know the route yet.
func (f *Ferry) Metric(name, route string) float64 {
	status, body, err := f.get("/metrics")
	if err != nil || status != http.StatusOK {
		return 0
	}
	label := fmt.Sprintf("route=%q", route)
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, label) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err == nil {
			return value
		}
	}
	return 0
}

// Confirmed is how many messages of the route the destination has confirmed in this life of the program.
func (f *Ferry) Confirmed(r *Route) int {
	return int(f.Metric("mqferry_messages_confirmed_total", r.Name))
}

// Attempts is how many attempts to deliver a message of the route failed or were refused, and how many connections were made again, in this life of the program.
func (f *Ferry) Attempts(r *Route) float64 {
	return f.Metric("mqferry_attempts_failed_total", r.Name) + f.Metric("mqferry_attempts_refused_total", r.Name) +
		f.Metric("mqferry_reconnects_total", r.Name)
}

// Ready asks /readyz whether all routes are connected and progressing, and for the text of the answer.
func (f *Ferry) Ready() (bool, string) {
	status, body, err := f.get("/readyz")
	if err != nil {
		return false, err.Error()
	}
	return status == http.StatusOK, body
}

// WaitReady waits until all routes are connected and progressing.
func (f *Ferry) WaitReady(t testing.TB, within time.Duration) {
	t.Helper()
	f.eventually(t, within, "it is ready", func() bool {
		ready, _ := f.Ready()
		return ready
	})
}

// WaitTrouble waits until /readyz says no, and names the route in a line with all of the given words.
func (f *Ferry) WaitTrouble(t testing.TB, r *Route, within time.Duration, words ...string) {
	t.Helper()
	words = append(words, r.Name)
	Eventually(t, within, func() string {
		ready, text := f.Ready()
		if !ready && hasLine(text, words) {
			return ""
		}
		return fmt.Sprintf("ready is %v, and no line has %q:\n%s", ready, words, text)
	})
}

func hasLine(text string, words []string) bool {
	for line := range strings.Lines(text) {
		found := true
		for _, word := range words {
			found = found && strings.Contains(line, word)
		}
		if found {
			return true
		}
	}
	return false
}

// WaitConfirmed waits until the destination has confirmed n messages of the route in this life of the program.
func (f *Ferry) WaitConfirmed(t testing.TB, r *Route, n int, within time.Duration) {
	t.Helper()
	f.eventually(t, within, fmt.Sprintf("%d messages of %s are confirmed", n, r.Name), func() bool {
		return f.Confirmed(r) >= n
	})
}

// RSS is the memory that the program holds now, in bytes; Peak the most that it ever held.
func (f *Ferry) RSS(t testing.TB) int64 { return f.memory(t, "VmRSS:") }

// Peak is the most memory that the program has held in its life so far, in bytes.
func (f *Ferry) Peak(t testing.TB) int64 { return f.memory(t, "VmHWM:") }

// MaxRSS watches the memory for a while and returns the most that the program held, in bytes.
func (f *Ferry) MaxRSS(t testing.TB, d time.Duration) int64 {
	t.Helper()
	end := time.After(d)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for most := f.RSS(t); ; most = max(most, f.RSS(t)) {
		select {
		case <-ticker.C:
		case <-end:
			return most
		}
	}
}

func (f *Ferry) memory(t testing.TB, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.process.ID()))
	require.NoError(t, err)
	_, rest, ok := bytes.Cut(status, []byte(field))
	require.True(t, ok, "%s is not in the status of the process", field)
	kilobytes, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	require.NoError(t, err)
	return kilobytes << 10
}

func (f *Ferry) get(path string) (status int, body string, err error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + f.admin + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}
