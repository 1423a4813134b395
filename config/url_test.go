package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
)

func TestURLPasswordMayHoldAnything(t *testing.T) {
	for text, want := range map[string]string{
		"amqp://u:p@host:5672/v":           "p",
		"amqp://u:p@:/%#?w@host:5672/v":    "p@:/%#?w",
		"amqp://u:p%40%2Fw@host:5672/v":    "p@/w",
		"amqp://u:100%@host:5672/v":        "100%",
		"amqps://u:a:b@host:5672/v?x=1":    "a:b",
		"rediss://:only@host:5672/v":       "only",
		"redis://host:5672/v":              "",
		"amqp://u@host:5672/v":             "",
		"amqp://u:%23%@host:5672/v?heart=": "%23%",
	} {
		var u config.URL
		require.NoError(t, u.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, u.Password.Reveal(), text)
		require.Equal(t, "host:5672", u.Host, text)
		require.Equal(t, "v", u.Path, text)
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			require.NotContains(t, fmt.Sprintf(format, u), "w@host", text)
			require.Equal(t, u.Scheme+"://host:5672", fmt.Sprintf(format, u))
		}
	}
}

func TestURLPathIsDecodedAndAnEmptyOneIsNotNone(t *testing.T) {
	for text, want := range map[string]config.URL{
		"amqp://h":         {Scheme: "amqp", Host: "h"},
		"AMQP://h/":        {Scheme: "amqp", Host: "h", HasPath: true},
		"amqp://h/%2Fa%20": {Scheme: "amqp", Host: "h", HasPath: true, Path: "/a "},
	} {
		var u config.URL
		require.NoError(t, u.UnmarshalText([]byte(text)))
		u.Query = nil
		require.Equal(t, want, u, text)
	}
}

func TestURLMistakesDoNotQuoteIt(t *testing.T) {
	for text, want := range map[string]string{
		"u:secret@host":             "is not a URL",
		"amqp://u:secret@":          "has no host",
		"amqp://u:secret@/v":        "has no host",
		"amqp://u:secret@h/%zz":     `has a "%" in its path`,
		"amqp://u:secret@h/v?a=%zz": "query",
	} {
		var u config.URL
		err := u.UnmarshalText([]byte(text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
		require.Zero(t, u)
	}
}

func TestAPasswordThatYAMLTakesForSomethingElseIsNotQuoted(t *testing.T) {
	for _, password := range []string{"*tunafish", "!tunafish x", "!tunafish"} {
		_, err := config.ParseRaw("test.yml", []byte("password: "+password))
		require.ErrorContains(t, err, "needs quotes")
		require.NotContains(t, err.Error(), "tunafish")
	}
	var c struct {
		URL config.URL `yaml:"url"`
	}
	for _, url := range []string{"user:tunafish@${HOST}", "user:tunafish://b@${HOST}", "amqp://user:tunafish@${NONE}"} {
		raw, err := config.ParseRaw("test.yml", []byte("url: "+url), config.WithLookup(func(name string) (string, bool) { return map[string]string{"HOST": "h", "NONE": ""}[name], true }))
		require.NoError(t, err)
		err = raw.Decode(&c)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "tunafish")
	}
}
