package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asMain makes the test binary be the program itself.
const asMain = "MQFERRY_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// runningDemo starts the program with a demo that has no end, and returns when orders are delivered.
func runningDemo(t *testing.T) (cmd *exec.Cmd, rest func() string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(self, "demo", "--for", "0")
	cmd.Env = append(os.Environ(), asMain+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, "delivered ") && !strings.Contains(line, "delivered 0 ") {
			break
		}
	}
	return cmd, func() string {
		text, err := io.ReadAll(lines)
		require.NoError(t, err)
		return string(text)
	}
}

func TestASignalStopsItCleanly(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd, rest := runningDemo(t)
		require.NoError(t, cmd.Process.Signal(signal))
		require.Contains(t, rest(), " 0 lost, 0 duplicated, 0 out of order\n")
		require.NoError(t, cmd.Wait())
	}
}

func TestASecondSignalEndsItAtOnce(t *testing.T) {
	cmd, rest := runningDemo(t)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NotContains(t, rest(), "demo: ")
	var ended *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &ended))
	require.Equal(t, 1, ended.ExitCode())
}
