package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/record"
)

func TestTemplateIsFilledFromTheRecord(t *testing.T) {
	r := &record.Record{
		Key: []byte("k1"), Source: record.Source{Topic: "orders"},
		Headers: []record.Header{
			{Key: "country", Value: []byte("de")},
			{Key: "country", Value: []byte("fr")},
			{Key: "void"},
			{Key: record.RoutingKeyEntry, Value: []byte("a.b")},
		},
	}
	for text, want := range map[string]struct {
		text string
		ok   bool
	}{
		"":                             {"", true},
		"plain":                        {"plain", true},
		"{{tag}}:orders":               {"{tag}:orders", true},
		"{key}":                        {"k1", true},
		"{topic}.poison":               {"orders.poison", true},
		"x.{routing_key}.{key}":        {"x.a.b.k1", true},
		"orders.{header.country}":      {"orders.fr", true},
		"orders.{header.none}.{topic}": {"orders..orders", false},
		"{header.void}":                {"", false},
	} {
		parsed, err := record.ParseTemplate(text)
		require.NoError(t, err, text)
		got, ok := parsed.Fill(r)
		require.Equal(t, want.text, got, text)
		require.Equal(t, want.ok, ok, text)
		require.Equal(t, text, parsed.String())
	}
}

func TestTheRoutingKeyOfAMessageWithoutOneIsItsTopic(t *testing.T) {
	parsed, err := record.ParseTemplate("{routing_key}")
	require.NoError(t, err)
	text, ok := parsed.Fill(&record.Record{Source: record.Source{Topic: "orders"}})
	require.True(t, ok)
	require.Equal(t, "orders", text)
}

func TestTemplateKnowsWhetherItIsLiteral(t *testing.T) {
	for text, literal := range map[string]bool{"": true, "a": true, "{{a}}": true, "{key}": false, "a{key}": false} {
		parsed, err := record.ParseTemplate(text)
		require.NoError(t, err)
		_, is := parsed.Literal()
		require.Equal(t, literal, is, text)
	}
}

func TestTemplateMistakesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{keys}":    "{keys} is not one of",
		"{header.}": "{header.} is not one of",
		"{key":      `a "{" without a "}"`,
		"key}":      `a "}" without a "{"`,
		"{tag}:x":   `write "{{" for a literal brace`,
	} {
		_, err := record.ParseTemplate(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestKeyOfAMessageWithoutOneIsNotFilled(t *testing.T) {
	parsed, err := record.ParseTemplate("{key}")
	require.NoError(t, err)
	_, ok := parsed.Fill(&record.Record{})
	require.False(t, ok)
	_, ok = parsed.Fill(&record.Record{Key: []byte{}})
	require.True(t, ok, "an empty key is a key")
}
