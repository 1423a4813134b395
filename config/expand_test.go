package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
)

func TestValuesFromOutsideAreReplaced(t *testing.T) {
	folder := write(t, map[string]string{"secret": "s3cret: # \"x\"\r\n\n", "empty": ""})
	lookup := func(name string) (string, bool) {
		value, set := map[string]string{"A": "a: b # c", "EMPTY": "", "Q": `"${A}`, "N": "null", "TEN": "10"}[name]
		return value, set
	}
	for text, want := range map[string]string{
		"plain":            "plain",
		"${A}":             "a: b # c",
		"<${A}|${TEN}>":    "<a: b # c|10>",
		"${EMPTY}":         "",
		"${EMPTY:-d}":      "d",
		"${NOT_SET:-d:-e}": "d:-e",
		"${NOT_SET:-}":     "",
		"${Q}":             `"${A}`,
		"${N}":             "null",
		"$${A}":            "${A}",
		"$$$$":             "$$",
		"pa$word $":        "pa$word $",
		"${file:secret}":   `s3cret: # "x"`,
		"${file:empty}":    "",
		"${file:../" + filepath.Base(folder) + "/secret}": `s3cret: # "x"`,
		"${file:" + filepath.Join(folder, "secret") + "}": `s3cret: # "x"`,
	} {
		r, err := config.ParseRaw(filepath.Join(folder, "c.yml"), []byte("text: "+text), config.WithLookup(lookup))
		require.NoError(t, err, text)
		var b broker
		require.NoError(t, r.Decode(&b), text)
		require.Equal(t, want, b.Text, text)
	}
}

func TestValuesFromOutsideHaveTheTypeOfTheirField(t *testing.T) {
	var b broker
	r, err := config.ParseRaw("b.yml", []byte("whole: ${X}\nunsigned: \"${X}\"\nratio: 1${X}\nlimit: ${X}kB\nany: {x: \"${X}\"}"),
		config.WithLookup(func(string) (string, bool) { return "10", true }))
	require.NoError(t, err)
	require.NoError(t, r.Decode(&b))
	require.Equal(t, []any{10, uint16(10), 110.0, config.Size(10_000), "10"}, []any{b.Whole, b.Unsigned, b.Ratio, b.Limit, b.Any["x"]})
}

func TestKeysAreNotReplaced(t *testing.T) {
	_, err := config.Parse("b.yml", []byte("${MQFERRY_TEST_CANARY}: 1"), config.WithLookup(environment))
	require.ErrorContains(t, err, `unknown key "${MQFERRY_TEST_CANARY}"`)
}

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	folder := write(t, map[string]string{"large": strings.Repeat("x", 1<<20+1)})
	_, err := config.ParseRaw(filepath.Join(folder, "c.yml"), []byte("a: ${file:large}"))
	require.ErrorContains(t, err, "a: ${file:large} is larger than 1MiB")
	_, err = config.ParseRaw(filepath.Join(folder, "c.yml"), []byte("a: ${file:.}"))
	require.ErrorContains(t, err, "is a directory")
}

func TestTheEnvironmentIsTheDefault(t *testing.T) {
	t.Setenv("MQFERRY_TEST_SET", "from the environment")
	r, err := config.ParseRaw("b.yml", []byte("text: ${MQFERRY_TEST_SET}"))
	require.NoError(t, err)
	var b broker
	require.NoError(t, r.Decode(&b))
	require.Equal(t, "from the environment", b.Text)
}
