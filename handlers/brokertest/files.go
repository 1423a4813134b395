package brokertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// ConfigFiles walks testdata/*.yml, with the broker for every data center: a *.good.yml is accepted, and any other gives exactly the mistakes that
// its lines "# want: …" announce, in their order.
func ConfigFiles(t *testing.T, broker handlers.Broker) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			var want []string
			for line := range strings.Lines(string(text)) {
				if rest, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, strings.TrimSpace(rest))
				}
			}
			err = load(name, broker)
			if strings.HasSuffix(name, ".good.yml") {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(want), "%v", err)
			for i, line := range lines {
				require.Contains(t, line, want[i])
			}
		})
	}
}

// load decodes a file as the router does.
func load(name string, broker handlers.Broker) error {
	_, err := config.Load([]string{name}, config.WithCheck(func(c *config.Config) error {
		var errs []error
		ends := map[string]handlers.DataCenter{}
		for _, d := range c.DataCenters {
			dc, err := broker.DataCenter(d.Options)
			ends[d.Name] = dc
			errs = append(errs, err)
		}
		for _, r := range c.Routes {
			if dc := ends[r.From.DataCenter]; dc != nil {
				_, err := dc.SourceOptions(r.From)
				errs = append(errs, err)
			}
			if dc := ends[r.To.DataCenter]; dc != nil {
				_, err := dc.DestinationOptions(r.To)
				errs = append(errs, err)
			}
		}
		return config.Join(errs...)
	}))
	return err
}
