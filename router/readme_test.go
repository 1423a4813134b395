package router_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/router"
)

func TestEveryConfigInTheDocumentsIsValid(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	checked := 0
	for _, pattern := range []string{"../*.md", "../handlers/*.md", "../handlers/*/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range block.FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(match[1], "routes:") {
					continue
				}
				_, err := router.Parse(file, []byte(match[1]))
				require.NoError(t, err, match[1])
				checked++
			}
		}
	}
	require.GreaterOrEqual(t, checked, 2)
}
