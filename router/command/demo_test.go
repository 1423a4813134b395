package command_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDemoEndsByItselfWithTheCountOfWhatArrived(t *testing.T) {
	got := ask(t, []string{"demo", "--for", "2s"})
	require.Equal(t, 0, got.code, got.out+got.errors)
	require.Empty(t, got.errors)
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	last := regexp.MustCompile(`^demo: (\d+) produced, (\d+) delivered, 0 lost, 0 duplicated, 0 out of order$`).FindStringSubmatch(lines[len(lines)-1])
	require.NotNil(t, last, got.out)
	require.Equal(t, last[1], last[2])
	require.NotEqual(t, "0", last[1])
}
