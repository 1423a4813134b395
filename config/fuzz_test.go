package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
)

// FuzzLoad is run for long with: go test -fuzz FuzzLoad -fuzzminimizetime 10x ./config
// No text makes the reader panic or lets an error show what is in the environment, and what is accepted is whole.
func FuzzLoad(f *testing.F) {
	for _, folder := range []string{"testdata", "examples"} {
		entries, err := os.ReadDir(folder)
		require.NoError(f, err)
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			text, err := os.ReadFile(folder + "/" + e.Name())
			require.NoError(f, err)
			f.Add(text)
		}
	}
	everything := func(string) (string, bool) { return canary, true }
	f.Fuzz(func(t *testing.T, text []byte) {
		// Files are not for a fuzzer to open, and what stands in the text itself may be shown.
		if strings.Contains(string(text), "file:") || strings.Contains(string(text), "canary") {
			t.Skip()
		}
		c, err := config.Parse("fuzz.yml", text, config.WithBrokers("kafka", "redis", "memory"), config.WithLookup(everything), config.WithCheck(options))
		if err != nil {
			require.Nil(t, c)
			require.NotContains(t, err.Error(), canary)
			for _, line := range err.(config.Errors) { //nolint:errorlint // It is what Parse promises.
				require.True(t, strings.HasPrefix(line.Error(), "fuzz.yml"), "no place: %s", line)
			}
			return
		}
		requireWhole(t, c)
	})
}

func requireWhole(t *testing.T, c *config.Config) {
	t.Helper()
	centers := map[string]bool{}
	for _, d := range c.DataCenters {
		require.False(t, centers[d.Name])
		centers[d.Name] = true
	}
	names := map[string]bool{}
	for _, r := range c.Routes {
		require.False(t, names[r.Name])
		names[r.Name] = true
		require.True(t, centers[r.From.DataCenter] && centers[r.To.DataCenter])
		require.True(t, r.From.Topic != "" && r.To.Topic != "" && r.From.Group != "")
		require.True(t, r.Window > 0 && r.WindowBytes >= config.MinWindowBytes)
	}
	require.NotEmpty(t, names)
	require.True(t, c.Memory >= config.MinMemory && c.ShutdownTimeout > 0)
}
