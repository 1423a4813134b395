package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mqferry/mqferry/config"
)

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]config.Size{
		"0": 0, "4096": 4096, "1B": 1, "200kB": 200_000, "3MB": 3_000_000, "2GB": 2_000_000_000,
		"1KiB": 1 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30, "1.5GiB": 3 << 29, "64 MiB": 64 << 20, "9223372036854775807": 1<<63 - 1,
	} {
		var s config.Size
		require.NoError(t, s.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, s, text)
		back, err := s.MarshalText()
		require.NoError(t, err)
		var again config.Size
		require.NoError(t, again.UnmarshalText(back), string(back))
		require.Equal(t, s, again, string(back))
	}
	for _, text := range []string{"", "MiB", "-1", "64mb", "64M", "1e9", "0x10", "1/2", "1.5B", "1..5kB", "8589934592GiB", "9223372036854775808", " 1", "64 MiB x"} {
		s := config.Size(7)
		require.Error(t, s.UnmarshalText([]byte(text)), text)
		require.Equal(t, config.Size(7), s, text)
	}
}

func TestSizesAndDurationsPrintAsPeopleWriteThem(t *testing.T) {
	for want, s := range map[string]fmt.Stringer{
		"0": config.Size(0), "64MiB": config.Size(64 << 20), "1536MiB": config.Size(3 << 29), "200kB": config.Size(200_000), "4097B": config.Size(4097),
		"0s": config.Duration(0), "500ms": config.Duration(500 * time.Millisecond), "20s": config.Duration(20 * time.Second),
		"1m": config.Duration(time.Minute), "10m": config.Duration(10 * time.Minute), "1h": config.Duration(time.Hour),
		"1h30m": config.Duration(90 * time.Minute), "10h0m10s": config.Duration(10*time.Hour + 10*time.Second),
		"earliest": config.Start{}, "latest": config.Start{Latest: true},
		"2026-01-31T08:00:00.5Z": config.Start{Time: time.Date(2026, 1, 31, 8, 0, 0, 500_000_000, time.UTC)},
	} {
		require.Equal(t, want, s.String())
	}
}

func TestDurationsNeedAUnit(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute} {
		var d config.Duration
		require.NoError(t, d.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, time.Duration(d), text)
	}
	for text, want := range map[string]string{"20": "has no unit", "1.5": "has no unit", "-1s": "is negative", "": "is not a duration", "1d": "is not a duration", "∞": "is not a duration"} {
		var d config.Duration
		require.ErrorContains(t, d.UnmarshalText([]byte(text)), want, text)
	}
}

func TestStartsAreReadBackFromWhatTheyPrint(t *testing.T) {
	for _, text := range []string{"earliest", "latest", "2026-01-31T08:00:00Z", "2026-01-31T08:00:00.123456789+02:00", "2026-01-31t08:00:00z"} {
		var s, again config.Start
		require.NoError(t, s.UnmarshalText([]byte(text)), text)
		back, err := s.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(back), string(back))
		require.True(t, s.Latest == again.Latest && s.Time.Equal(again.Time), text)
	}
	for _, text := range []string{"", "now", "2026-01-31", "2026-01-31 08:00:00", "0001-01-01T00:00:00Z"} {
		require.Error(t, new(config.Start).UnmarshalText([]byte(text)), text)
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	s := config.Secret(canary)
	held := struct {
		Password config.Secret
		Pointer  *config.Secret
		List     []config.Secret
	}{s, &s, []config.Secret{s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", held)
	}
	fmt.Fprintln(&out, s.String(), s.GoString())
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "s", s, "held", held)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "s", s, "held", held)
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		for _, v := range []any{s, held, map[string]config.Secret{"a": s}} {
			text, err := marshal(v)
			require.NoError(t, err)
			out.Write(text)
		}
	}
	require.NotContains(t, out.String(), canary)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", canary))
	require.Contains(t, out.String(), `{"a":"xxxxx"}`)
	require.Equal(t, canary, s.Reveal())
	require.Equal(t, `|""|`, fmt.Sprintf("%s|%q|", config.Secret(""), config.Secret("")))
}
