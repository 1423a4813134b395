package integration

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration/process"
)

const pollInterval = 20 * time.Millisecond

// Ferry is the product, running as a process of its own.
type Ferry struct {
	process *process.Process
	admin   string
	log     string
}

// Run starts the program with the text of a config file. It serves health and metrics on a free port, whether the text says so or
// not; it is killed at the end of the test if it still runs, and its log is shown when the test failed. Arguments are further ones of "mqferry run".
func Run(t testing.TB, config string, arguments ...string) *Ferry {
	t.Helper()
	program, err := shared.path()
	require.NoError(t, err)
	dir := t.TempDir()
	f := &Ferry{admin: freeAddress(t), log: filepath.Join(dir, "mqferry.log")}
	file := filepath.Join(dir, "mqferry.yml")
	text := config + "\nadmin: {listen: \"" + f.admin + "\"}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	f.process, err = process.Start(f.log, program, append([]string{"run", "-c", file, "--instance", "integration"}, arguments...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		f.process.Kill()
		if t.Failed() {
			t.Logf("the config:\n%s\nthe end of the log:\n%s", text, f.process.LastOutput())
		}
	})
	return f
}

// Stop ends the program with SIGTERM and wants it to be gone within the given time, with exit code 0.
func (f *Ferry) Stop(t testing.TB, within time.Duration) {
	t.Helper()
	f.Terminate(t, within)
	require.Zero(t, f.process.ExitCode(), "the exit code after SIGTERM; the end of the log:\n%s", f.process.LastOutput())
}

// Terminate ends the program with SIGTERM, wants it to be gone within the given time, and returns its exit code.
func (f *Ferry) Terminate(t testing.TB, within time.Duration) int {
	t.Helper()
	require.NoError(t, f.process.End(syscall.SIGTERM, within))
	return f.process.ExitCode()
}

// Kill ends the program with SIGKILL.
func (f *Ferry) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, f.process.End(syscall.SIGKILL, 10*time.Second))
}

// Log is all that the program has written so far.
func (f *Ferry) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(f.log)
	require.NoError(t, err)
	return string(text)
}

// eventually asks every few milliseconds until the answer is yes, and fails the test when it is not within the given time, or when
// the program has ended.
func (f *Ferry) eventually(t testing.TB, within time.Duration, what string, ask func() bool) {
	t.Helper()
	Eventually(t, within, func() string {
		if !f.process.Running() {
			t.Fatalf("the program ended while the test waited until %s; the end of its log:\n%s", what, f.process.LastOutput())
		}
		if ask() {
			return ""
		}
		return "still waiting until " + what
	})
}

// Eventually asks every few milliseconds what is still missing, and fails the test with the last answer when it is not nothing within
// the given time.
func Eventually(t testing.TB, within time.Duration, missing func() string) {
	t.Helper()
	deadline := time.After(within)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		last := missing()
		if last == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after %v: %s", within, last)
		}
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
