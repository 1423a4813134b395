package command_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds every wait.
const deadline = 30 * time.Second

const canary = "tunafish"

const oneRoute = `
datacenters:
  shanghai:  {test: {}}
  frankfurt: {test: {}}
routes:
  - {name: orders, from: shanghai/orders, to: frankfurt/orders}
`

const sixMistakes = `
datacenters:
  shanghai:
    kafka: {brokers: ["127.0.0.1:9092"], brokrs: 1}
  frankfurt:
    redis: {address: "127.0.0.1:6379", password: "${CANARY}", db: "${CANARY}"}
routes:
  - name: orders
    from: shanghai/orders
    to: frankfrut/orders
  - name: prices
    from: shanghai/prices
    to: frankfurt/prices
    window_bytes: 64MiBs
  - name: orders
    from: shanghai/stock
    to: frankfurt/stock
  - name: echo
    from: shanghai/echo
    to: shanghai/echo
`

// asked is what one call of the command line gave.
type asked struct {
	code        int
	out, errors string
}

func ask(t *testing.T, args []string, opts ...router.Option) asked {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var out, errors bytes.Buffer
	code := command.RunWith(ctx, &out, &errors, args, opts...)
	return asked{code, out.String(), errors.String()}
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mqferry.yml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestWhatIsAskedIsAnswered(t *testing.T) {
	file := write(t, oneRoute)
	folder := filepath.Dir(file)
	for _, row := range []struct {
		name        string
		args        string
		code        int
		out, errors string // What must be in it; "" means that it must be empty.
	}{
		{"no word gives the help", "", 0, "Commands:\n  run ", ""},
		{"help gives the help", "help", 0, "mqferry run -c mqferry.yml", ""},
		{"a flag for help gives it too", "--help", 0, "Commands:", ""},
		{"help about a command", "help validate", 0, "Usage: mqferry validate", ""},
		{"help from a command's flag", "run -h", 0, "Usage: mqferry run", ""},
		{"help about nothing there is", "help sail", 2, "", `mqferry has no command "sail"; there are run, validate, poison, demo, version and help`},
		{"a command that is not there", "sail", 2, "", `has no command "sail"`},
		{"the version", "version", 0, "mqferry ", ""},
		{"the version as a flag", "--version", 0, ", go1.", ""},
		{"run without a configuration", "run", 2, "", "mqferry run: no configuration"},
		{"an empty configuration's name", "validate -c=", 2, "", "name a file or a folder"},
		{"a flag that is not there", "run -x", 2, "", "-x\nSee \"mqferry help run\"."},
		{"a word too many", "validate -c " + file + " now", 2, "", `"now" is one word too many`},
		{"a level that is not there", "run -c " + file + " --log-level loud", 2, "", "must be one of [debug info warn error]"},
		{"a form of log that is not there", "run -c " + file + " --log-format xml", 2, "", "must be one of [auto text json]"},
		{"the schema", "validate --schema", 0, `"title": "mqferry configuration"`, ""},
		{"a good file", "validate -c " + file, 0, "ok: 1 route, 2 data centers\n  orders: shanghai/orders -> frankfurt/orders\n", ""},
		{"a good folder", "validate -c " + folder, 0, "ok: 1 route, 2 data centers\n", ""},
		{"a file that is not there", "validate -c /nowhere/mqferry.yml", 2, "", "/nowhere/mqferry.yml: cannot be read: no such file or directory\n1 mistake\n"},
		{"a demo of no orders", "demo --rate 0", 2, "", "mqferry demo: --rate 0 is not between 1 and"},
		{"a demo that ends before it begins", "demo --for -1s", 2, "", "--for -1s is negative"},
		{"a demo at no address", "demo --admin here", 2, "", `--admin "here" is not host:port`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := ask(t, strings.Fields(row.args), router.WithBroker("test", memory.New().Broker()))
			require.Equal(t, row.code, got.code, got.errors)
			contains(t, got.out, row.out)
			contains(t, got.errors, row.errors)
		})
	}
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if part == "" {
		require.Empty(t, text)
		return
	}
	require.Contains(t, text, part)
}

func TestEveryMistakeIsShownWithItsLineAndNoSecret(t *testing.T) {
	t.Setenv("CANARY", canary)
	file := write(t, sixMistakes)
	for _, word := range []string{"run", "validate"} {
		got := ask(t, []string{word, "-c", file})
		require.Equal(t, 2, got.code)
		require.Empty(t, got.out)
		require.NotContains(t, got.errors, canary)
		lines := strings.Split(strings.TrimSpace(got.errors), "\n")
		require.Len(t, lines, 7, got.errors)
		require.Equal(t, "6 mistakes", lines[6])
		for i, at := range []string{"4: datacenters.shanghai", "6: datacenters.frankfurt", "10: routes[0].to", "14: routes[1].window_bytes", "15: routes[2].name", "20: routes[3].to"} {
			require.Regexp(t, "^"+regexp.QuoteMeta(file+":"+at), lines[i])
		}
	}
}
