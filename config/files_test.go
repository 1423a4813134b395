package config_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
)

// canary is what no error may show.
const canary = "canary-7c1e9f"

// environment has the canary and nothing else.
func environment(name string) (string, bool) {
	return canary, name == "MQFERRY_TEST_CANARY"
}

// kafka, redis and ends stand for what the brokers' own packages decode.
type kafka struct {
	Brokers  []string          `yaml:"brokers"`
	ClientID string            `yaml:"client_id"`
	Linger   config.Duration   `yaml:"linger"`
	TLS      *tls              `yaml:"tls"`
	SASL     sasl              `yaml:"sasl"`
	Labels   map[string]string `yaml:"labels"`
}

func (k *kafka) Validate() error {
	if len(k.Brokers) == 0 {
		return config.Invalid("brokers", "is missing; write host:port")
	}
	return nil
}

type tls struct {
	CA         string `yaml:"ca"`
	ServerName string `yaml:"server_name"`
}

type sasl struct {
	Mechanism string        `yaml:"mechanism"`
	Username  string        `yaml:"username"`
	Password  config.Secret `yaml:"password"`
}

type redis struct {
	Address  string          `yaml:"address"`
	Password config.Secret   `yaml:"password"`
	Linger   config.Duration `yaml:"linger"`
}

func (r redis) Validate() error {
	if _, _, err := net.SplitHostPort(r.Address); err != nil && r.Address != "a" {
		return config.Invalid("address", "%q is not host:port: %w", r.Address, err)
	}
	return nil
}

type sourceOptions struct {
	MaxBytes config.Size `yaml:"max_bytes"`
}

type destinationOptions struct {
	MaxLength int `yaml:"max_length"`
}

// options decodes all that the brokers would, as the router does.
func options(c *config.Config) error {
	var errs []error
	for _, d := range c.DataCenters {
		into := map[string]any{"kafka": &kafka{}, "redis": &redis{}, "memory": &struct{}{}}[d.Broker]
		errs = append(errs, d.Options.Decode(into))
	}
	for _, r := range c.Routes {
		errs = append(errs, r.From.Options.Decode(&sourceOptions{}), r.To.Options.Decode(&destinationOptions{}))
	}
	return config.Join(errs...)
}

func load(paths ...string) (*config.Config, error) {
	return config.Load(paths, config.WithBrokers("redis", "kafka", "memory"), config.WithLookup(environment), config.WithCheck(options))
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestGoodFilesLoad(t *testing.T) {
	for _, file := range glob(t, "testdata/*.good.yml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := load(file)
			require.NoError(t, err)
			require.NotEmpty(t, c.Routes)
			require.Equal(t, []string{file}, c.Sources)
		})
	}
}

// A bad file begins with one line "# want: " for each of its mistakes, with words that the error has.
func TestBadFilesShowAllTheirMistakesAndNoMore(t *testing.T) {
	for _, file := range glob(t, "testdata/*.bad.yml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := load(file)
			require.Error(t, err)
			require.Nil(t, c)
			got := strings.Split(err.Error(), "\n")
			for _, want := range wanted(t, file) {
				require.True(t, takeOne(&got, want), "no error has %q; left are:\n%s", want, strings.Join(got, "\n"))
			}
			require.Empty(t, got, "errors that the file does not want")
			require.NotContains(t, err.Error(), "canary")
		})
	}
}

func wanted(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var wants []string
	for line := range strings.Lines(string(text)) {
		if want, ok := strings.CutPrefix(line, "# want: "); ok {
			wants = append(wants, strings.TrimSuffix(want, "\n"))
		}
	}
	require.NotEmpty(t, wants, "the file does not say what it wants")
	return wants
}

func takeOne(lines *[]string, want string) bool {
	for i, line := range *lines {
		if strings.Contains(line, want) {
			*lines = append((*lines)[:i:i], (*lines)[i+1:]...)
			return true
		}
	}
	return false
}

func TestMistakesAreSortedByFileAndLine(t *testing.T) {
	_, err := load("testdata/six-mistakes.bad.yml")
	var last int
	for _, line := range strings.Split(err.Error(), "\n") {
		var number int
		_, scanErr := fmt.Sscanf(line, "testdata/six-mistakes.bad.yml:%d:", &number)
		require.NoError(t, scanErr)
		require.Greater(t, number, last)
		last = number
	}
	var all config.Errors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 6)
}

func TestDefaultsAreFilledIn(t *testing.T) {
	c, err := load("testdata/minimal.good.yml")
	require.NoError(t, err)
	require.Equal(t, config.DefaultMemory, c.Memory)
	require.Equal(t, 20*time.Second, time.Duration(c.ShutdownTimeout))
	require.Empty(t, c.Admin.Listen)
	r := c.Routes[0]
	require.Equal(t, "orders", r.Name)
	require.Equal(t, "mqferry-orders", r.From.Group)
	require.Equal(t, config.Start{}, r.From.Start)
	require.Equal(t, 8192, r.Window)
	require.Equal(t, config.Size(64<<20), r.WindowBytes)
	require.Equal(t, config.OrderLane, r.Order)
	require.True(t, r.From.Options.IsZero())
	require.Equal(t, 8, r.From.Options.Line(), "absent options have the place of their end")
}

func TestEveryKeyIsRead(t *testing.T) {
	c, err := load("testdata/everything.good.yml")
	require.NoError(t, err)
	names := make([]string, len(c.DataCenters))
	for i, d := range c.DataCenters {
		names[i] = d.Name + " " + d.Broker
	}
	require.Equal(t, []string{"shanghai kafka", "frankfurt kafka", "virginia redis", "test memory"}, names)
	require.Equal(t, ":8080", c.Admin.Listen)
	require.Equal(t, config.Size(3<<29), c.Memory)
	require.Equal(t, 90*time.Second, time.Duration(c.ShutdownTimeout))

	r := c.Routes[0]
	require.Equal(t, []string{"shanghai", "orders*", "readers"}, []string{r.From.DataCenter, r.From.Topic, r.From.Group})
	require.True(t, r.From.Start.Time.Equal(time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)))
	require.Equal(t, []string{"virginia", "orders{1}/all"}, []string{r.To.DataCenter, r.To.Topic})
	require.Equal(t, 200, r.Window, "the route wins over the defaults")
	require.Equal(t, config.OrderLane, r.Order)
	require.Equal(t, "orders/of/others", c.Routes[1].From.Topic, "the short form is split at its first slash")
	require.Equal(t, 100, c.Routes[1].Window)
	require.Equal(t, config.OrderStrict, c.Routes[1].Order)

	var to destinationOptions
	require.NoError(t, r.To.Options.Decode(&to))
	require.Equal(t, 1000, to.MaxLength)
	var a, b kafka
	require.NoError(t, c.DataCenters[0].Options.Decode(&a))
	require.NoError(t, c.DataCenters[1].Options.Decode(&b))
	require.Equal(t, []string{"127.0.0.1:9092"}, a.Brokers)
	require.Equal(t, "a: b # c", a.SASL.Password.Reveal(), "a value cannot change the structure of the file")
	require.Equal(t, &tls{CA: "ca.pem", ServerName: "kafka"}, b.TLS)
	var v redis
	require.NoError(t, c.DataCenters[2].Options.Decode(&v))
	require.Equal(t, "hunter2", v.Password.Reveal())
}

// write puts files into a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

func TestAFolderIsPutTogetherInTheOrderOfItsNames(t *testing.T) {
	folder := write(t, map[string]string{
		"b.yaml":     "routes: [{name: b, from: here/b, to: there/b}]\ndefaults: {window: 7}",
		"a.yml":      "datacenters: {here: {memory: {}}}\nroutes: [{name: a, from: here/a, to: there/a}]",
		"c.yml":      "datacenters: {there: {memory: {}}}",
		".#c.yml":    "not for us",
		"notes.txt":  "not for us",
		"d.yml.save": "not for us",
	})
	c, err := load(folder, filepath.Join(folder, "a.yml"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{c.Routes[0].Name, c.Routes[1].Name})
	require.Equal(t, 7, c.Routes[0].Window, "defaults are for the routes of all files")
	require.Len(t, c.Sources, 3)
}

func TestANameTwiceInSeveralFilesIsAnErrorNamingBothPlaces(t *testing.T) {
	text := "datacenters: {here: {memory: {}}}\nroutes:\n  - {name: a, from: here/a, to: here/b}\nmemory: 1GiB\nadmin: {listen: \":1\"}\ndefaults: {window: 1}\nshutdown_timeout: 1s\n"
	folder := write(t, map[string]string{"a.yml": text, "b.yml": text})
	_, err := load(folder)
	var got []string
	for _, line := range strings.Split(err.Error(), "\n") {
		got = append(got, strings.ReplaceAll(line, folder+"/", ""))
	}
	require.Equal(t, []string{
		`b.yml:1: datacenters.here: data center "here" is there twice; the other one is at a.yml:1`,
		`b.yml:3: routes[0].name: route "a" is there twice; the other one is at a.yml:3`,
		`b.yml:4: memory: is there twice; the other one is at a.yml:4`,
		`b.yml:5: admin: is there twice; the other one is at a.yml:5`,
		`b.yml:6: defaults: is there twice; the other one is at a.yml:6`,
		`b.yml:7: shutdown_timeout: is there twice; the other one is at a.yml:7`,
	}, got)
}

func TestFilesThatCannotBeReadAreAllNamed(t *testing.T) {
	folder := write(t, map[string]string{"good.yml": "routes: [{name: a, from: here/a, to: here/b}]"})
	_, err := load(filepath.Join(folder, "good.yml"), "no-such-file.yml", t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "no-such-file.yml: cannot be read: no such file or directory")
	require.ErrorContains(t, err, "is a folder without *.yml or *.yaml files")
	require.NotContains(t, err.Error(), "good.yml", "what the other files define is not known")

	_, err = load()
	require.ErrorContains(t, err, "no configuration file is given")
}

func TestAnyBrokerIsAcceptedWhereNoneAreNamed(t *testing.T) {
	c, err := config.Parse("x.yml", []byte("datacenters: {here: {nats: {url: x}}}\nroutes: [{name: a, from: here/a, to: here/b}]"))
	require.NoError(t, err)
	require.Equal(t, "nats", c.DataCenters[0].Broker)
	require.Equal(t, "datacenters.here.nats", c.DataCenters[0].Options.Path())
}

func TestAMappingWinsOverWhatItMerges(t *testing.T) {
	var b broker
	r := raw(t, "any: {a: &a {x: 1, y: 1}, b: &b {y: 2, z: 2}}\nlabels: {<<: [*a, *b], x: own}")
	require.NoError(t, r.Decode(&b))
	require.Equal(t, map[string]string{"x": "own", "y": "1", "z": "2"}, b.Labels)
}

func TestAnAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	_, err := config.Parse("bomb.yml", []byte(b.String()))
	require.ErrorContains(t, err, "the file holds more than 100000 values (aliases count each time they are used)")
	_, err = config.Parse("deep.yml", []byte("a: "+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))
	require.ErrorContains(t, err, "is nested more than 100 levels deep")
}
