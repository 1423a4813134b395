package router_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mqferry/mqferry/router"
)

// canary is a part of every password in these tests: whatever shows it, shows a password.
const canary = "c4n4ry"

// guarded has a password in every place and every form that a file may have.
const guarded = `
datacenters:
  plain: {kafka: {brokers: ["h:1"], tls: {}, sasl: {mechanism: PLAIN, username: ferry, password: "p@:/%#?c4n4ry-sasl"}}}
  environment: {kafka: {brokers: ["h:1"], sasl: {mechanism: SCRAM-SHA-256, username: ferry, password: "${FERRY_PASSWORD}"}}}
  beside: {rabbitmq: {url: ["amqp://h/", "amqp://ferry:c4n4ry-list@i/"], username: ferry, password: c4n4ry-beside}}
  raw: {rabbitmq: {url: "amqps://ferry:p@:/%#?c4n4ry-raw@h:1/v"}}
  escaped: {rabbitmq: {url: "amqp://ferry:p%40%3A%2F%25%23%3Fc4n4ry-escaped@h:1/v"}}
  part: {redis: {url: "redis://ferry:${FERRY_PASSWORD}@h:1/0"}}
  file: {redis: {address: "h:1", username: ferry, password: "${file:FILE}"}}
  number: {redis: {address: "h:1", password: 4711}}
routes:
  - {name: a, from: plain/x, to: environment/x}
  - {name: b, from: beside/x, to: raw/x}
  - {name: c, from: escaped/x, to: part/x}
  - {name: d, from: file/x, to: number/x}
`

func secretsAround(t *testing.T) (text string) {
	t.Helper()
	t.Setenv("FERRY_PASSWORD", "p@:/%#?"+canary+"-environment")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(canary+"-file\n"), 0o600))
	return strings.ReplaceAll(guarded, "FILE", file)
}

// requireSilent wants no form of a password in the text.
func requireSilent(t *testing.T, text string) {
	t.Helper()
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary))} {
		require.NotContains(t, text, form)
	}
}

func TestHoweverAConfigurationIsPrintedNoSecretIsInIt(t *testing.T) {
	cfg, err := router.Parse("test.yml", []byte(secretsAround(t)))
	require.NoError(t, err)
	r, err := router.New(cfg)
	require.NoError(t, err)

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{cfg, *cfg, cfg.DataCenters, cfg.Routes, r, r.Status()} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		for _, d := range cfg.DataCenters {
			fmt.Fprintf(&out, verb+verb+"\n", d, d.Options)
		}
	}
	require.Contains(t, out.String(), "escaped")
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		text, err := marshal(cfg)
		require.NoError(t, err)
		require.Contains(t, string(text), "escaped")
		out.Write(text)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("the configuration", "config", cfg, "routes", cfg.Routes)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("the configuration", "config", cfg, "routes", cfg.Routes)
	requireSilent(t, out.String())
	require.NotContains(t, out.String(), "4711", "a password that is a number")
}

func TestNoMistakeInAFileShowsASecret(t *testing.T) {
	t.Setenv("FERRY_PASSWORD", canary+"-environment")
	for _, test := range []struct{ name, broker, want string }{
		{"no scheme", `rabbitmq: {url: "ferry:c4n4ry@h:1"}`, "is not a URL"},
		{"one slash", `rabbitmq: {url: "amqp:/ferry:c4n4ry@h:1"}`, "is not a URL"},
		{"no host", `rabbitmq: {url: "amqp://ferry:c4n4ry@"}`, "no host"},
		{"no host, with Redis", `redis: {url: "redis://ferry:c4n4ry@/0"}`, "no host"},
		{"a host that was forgotten", `rabbitmq: {url: "amqp://ferry:c4n4ry"}`, "url"},
		{"a host that was forgotten, with Redis", `redis: {url: "redis://ferry:c4n4ry/0"}`, "url"},
		{"a path that cannot be read", `rabbitmq: {url: "amqp://ferry:c4n4ry@h:1/%zz"}`, "path"},
		{"a database that is no number", `redis: {url: "redis://ferry:c4n4ry@h:1/x"}`, "url"},
		{"another protocol", `rabbitmq: {url: "http://ferry:c4n4ry@h:1"}`, "amqp://"},
		{"another protocol, with Redis", `redis: {url: "http://ferry:c4n4ry@h:1"}`, "redis://"},
		{"a query", `rabbitmq: {url: "amqp://ferry:c4n4ry@h:1/?password=c4n4ry"}`, "query"},
		{"a query, with Redis", `redis: {url: "redis://h:1/?password=c4n4ry"}`, "url"},
		{"TLS settings without TLS", `rabbitmq: {url: "amqp://ferry:c4n4ry@h:1", tls: {}}`, "amqps://"},
		{"one of several", `rabbitmq: {url: ["amqp://h", "ferry:c4n4ry@h:1"]}`, "is not a URL"},
		{"out of the environment", `rabbitmq: {url: "ferry:${FERRY_PASSWORD}@h:1"}`, "rabbitmq.url"},
		{"a URL as an address", `redis: {address: "redis://ferry:${FERRY_PASSWORD}@h:1"}`, "address"},
		{"a password that is a list", `redis: {address: "h:1", password: [c4n4ry]}`, "password"},
		{"a password that is a mapping", `redis: {address: "h:1", password: {c4n4ry: c4n4ry}}`, "password"},
		{"a password without a user", `kafka: {brokers: ["h:1"], sasl: {mechanism: PLAIN, password: c4n4ry}}`, "username"},
		{"a key that is not known", `kafka: {brokers: ["h:1"], sasl: {mechanism: PLAIN, username: u, pass: c4n4ry}}`, `"pass"`},
		{"a key that is not known, at the broker", `redis: {address: "h:1", pasword: c4n4ry}`, `"pasword"`},
		{"a mechanism that is not known", `kafka: {brokers: ["h:1"], sasl: {mechanism: X, username: u, password: c4n4ry}}`, "mechanism"},
		{"a directive by mistake", `redis: {address: "h:1", password: %c4n4ry}`, "test.yml"},
		{"an at sign by mistake", `redis: {address: "h:1", password: @c4n4ry}`, "test.yml"},
		{"a quote that does not end", `redis: {address: "h:1", password: "c4n4ry}`, "test.yml"},
		{"an expression that does not end", `redis: {address: "h:1", password: "c4n4ry${x"}`, "password"},
		{"a colon by mistake", `redis: {address: "h:1", password: c4n4ry: x}`, "test.yml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := "datacenters:\n  a: {" + test.broker + "}\nroutes:\n  - {name: r, from: a/x, to: a/y}\n"
			_, err := router.Parse("test.yml", []byte(text))
			t.Log(err)
			require.ErrorContains(t, err, test.want)
			requireSilent(t, fmt.Sprintf("%v %+v %#v", err, err, err))
			requireSilent(t, url.QueryEscape(err.Error()))
		})
	}
}
