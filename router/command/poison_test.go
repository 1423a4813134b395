package command_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/command"
)

// morgue has a poison queue of n messages of the route orders.
func morgue(t *testing.T, n int) (store *memory.Store, call func(args string) asked) {
	t.Helper()
	store = memory.New()
	for i := range n {
		r := &record.Record{
			ID: fmt.Sprintf("id-%d", i), Key: []byte{'k', 0xff}, Value: fmt.Appendf(nil, `{"n":%d}`, i),
			Headers: []record.Header{{Key: "country", Value: []byte("de")}, {Key: "bin", Value: []byte{0, 1}}},
			Source:  record.Source{DataCenter: "shanghai", Topic: "orders", Lane: "0", Position: fmt.Sprint(i)},
		}
		store.Site("shanghai").Produce("orders.poison", 0, middleware.Parked(r, "orders", handlers.Refused(fmt.Errorf("no %d", i))))
	}
	file := write(t, oneRoute)
	return store, func(args string) asked {
		words := strings.Fields(strings.ReplaceAll(args, "FILE", file))
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		return ask(t, words, router.WithBroker("test", store.Broker()))
	}
}

func TestPoisonListAndShowTellWhyAndConsumeNothing(t *testing.T) {
	_, call := morgue(t, 3)
	for range 2 {
		got := call("poison list orders -c FILE")
		require.Equal(t, 0, got.code, got.errors)
		require.Contains(t, got.out, "LAST FAILED")
		require.Regexp(t, `1 +refused +23 +id-0 +no 0\n.*id-1 +no 1\n.*id-2 +no 2\n3 messages in shanghai/orders.poison\n$`, got.out)
	}
	got := call("poison -c FILE show --limit 1 orders")
	require.Equal(t, 0, got.code, got.errors)
	for _, want := range []string{
		"id         id-0\n", "source     shanghai/orders/0@0\n", "class      refused\n", "reason     no 0\n", "key        hex 6bff\n",
		"header     country: de\n", "header     bin: hex 0001\n", "payload    7 bytes of JSON\n{\n  \"n\": 0\n}\n",
	} {
		require.Contains(t, got.out, want)
	}
	require.NotContains(t, got.out, "id-1")
}

func TestPoisonWritesJSON(t *testing.T) {
	_, call := morgue(t, 2)
	got := call("poison show orders -c FILE --json")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 2)
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &m))
	require.Equal(t, "id-1", m["id"])
	require.Equal(t, "6bff", m["key_hex"])
	require.Equal(t, `{"n":1}`, m["payload"])
	require.Equal(t, "shanghai/orders/0@1", m["source"])
	require.Equal(t, []any{map[string]any{"name": "country", "value": "de"}, map[string]any{"name": "bin", "value": "\x00\x01"}}, m["headers"])
	require.NotContains(t, call("poison list orders -c FILE --json").out, "payload")
}

func TestPoisonMatchChooses(t *testing.T) {
	_, call := morgue(t, 20)
	for expression, want := range map[string]string{
		`id=="id-3"`:                             "1 message ",
		`reason.endsWith("3")`:                   "2 messages ",
		`headers["country"]=="de"&&size>23`:      "10 messages ",
		`headers["none"]=="x"`:                   "0 messages ",
		`class=="permanent"||attempts>1`:         "0 messages ",
		`payload.contains("1")`:                  "11 messages ",
		`last>timestamp("2020-01-01T00:00:00Z")`: "20 messages ",
	} {
		got := call("poison replay orders -c FILE --dry-run --match " + expression)
		require.Equal(t, 0, got.code, got.errors)
		require.True(t, strings.HasPrefix(got.out, want), "%s: %s", expression, got.out)
	}
	for expression, want := range map[string]string{"clas==1": "undeclared reference to 'clas'", "attempts": "is a int, not a condition", "1+": "Syntax error"} {
		got := call("poison list orders -c FILE --match " + expression)
		require.Equal(t, 2, got.code)
		require.Contains(t, got.errors, want)
	}
}

func TestPoisonReplayAndDiscardSayWhatTheyDid(t *testing.T) {
	store, call := morgue(t, 10)
	store.Site("frankfurt").OnPublish(func(_ string, r *record.Record, _ int) memory.Verdict {
		if r.ID == "id-4" {
			return memory.Refuse(handlers.Refused(errors.New("still no")))
		}
		return memory.Confirm()
	})
	got := call("poison replay orders -c FILE --limit 6")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.out, "5 messages delivered to frankfurt/orders, 1 failed and left in shanghai/orders.poison\n")
	require.Contains(t, got.errors, "1 message failed again, the first: ")
	require.Contains(t, got.errors, "still no")
	require.Len(t, store.Site("frankfurt").Messages("orders"), 5)
	require.Equal(t, "2 messages in shanghai/orders.poison would be discarded\n", call("poison discard orders -c FILE --dry-run --limit 2").out)
	require.Equal(t, "1 message discarded from shanghai/orders.poison\n", call(`poison discard orders -c FILE --match id=="id-4"`).out)
	require.Equal(t, `{"discarded":4}`+"\n", call("poison discard orders -c FILE --all --json").out)
	require.Contains(t, call("poison list orders -c FILE").out, "0 messages in")
}

func TestPoisonMistakesAreTold(t *testing.T) {
	_, call := morgue(t, 1)
	for args, want := range map[string]string{
		"poison":                                "say what to do: one of list, show, replay, discard",
		"poison lst orders -c FILE":             `"lst" is not one of list, show, replay, discard`,
		"poison list -c FILE":                   "name a route",
		"poison list orders prices -c FILE":     `"prices" is one word too many`,
		"poison list orders":                    "no configuration",
		"poison discard orders -c FILE":         "with --all",
		"poison list orders -c FILE --nope":     "nope",
		"poison list orders -c FILE --limit=-1": "is negative",
	} {
		got := call(args)
		require.Equal(t, 2, got.code, args)
		require.Contains(t, got.errors, want, args)
	}
	got := call("poison list prices -c FILE")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.errors, `there is no route "prices"`)
}

func TestNothingInAMessageReachesTheTerminalAsItIs(t *testing.T) {
	store, call := morgue(t, 0)
	evil := "\x1b[31mred\r\x07"
	r := &record.Record{ID: evil, Value: []byte(evil + "\n" + evil), Headers: []record.Header{{Key: evil, Value: []byte(evil)}}}
	store.Site("shanghai").Produce("orders.poison", 0, middleware.Parked(r, "orders", errors.New(evil)))
	for _, action := range []string{"list", "show"} {
		out := call("poison " + action + " orders -c FILE").out
		require.NotEmpty(t, out)
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "\r")
	}
}

func TestPoisonReplayShowsABarOnATerminal(t *testing.T) {
	store, _ := morgue(t, 8)
	var out, bar bytes.Buffer
	code := command.RunOnTerminal(t.Context(), &out, &bar, []string{"poison", "replay", "orders", "-c", write(t, oneRoute)}, router.WithBroker("test", store.Broker()))
	require.Equal(t, 0, code)
	require.Contains(t, bar.String(), "\r["+strings.Repeat("=", 30)+"] 8 of 8, 0 failed \n")
}
