package router_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/middleware"
	"github.com/mqferry/mqferry/router"
)

// stamp is a user's middleware: it marks messages, and drops some.
type stamp struct {
	Mark      string `yaml:"mark"`
	DropEvery int    `yaml:"drop_every"`
}

func (s stamp) Validate() error {
	if s.Mark == "" {
		return config.Invalid("mark", "is empty")
	}
	return nil
}

func stamping(closed *atomic.Int32) router.Option {
	return router.WithMiddleware("stamp", middleware.New(
		func() stamp { return stamp{Mark: "!"} },
		func(c stamp, s middleware.Settings) (message.HandlerMiddleware, error) {
			s.OnClose(func() error { closed.Add(1); return nil })
			return func(next message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					n, err := strconv.Atoi(string(msg.Payload))
					if err == nil && c.DropEvery > 0 && n%c.DropEvery == 0 {
						return nil, middleware.Drop("too many")
					}
					msg.Metadata.Set("stamp", msg.Metadata.Get("stamp")+c.Mark)
					return next(msg)
				}
			}, nil
		},
	))
}

func TestMiddlewareOfOnesOwnRunsInTheOrderOfTheList(t *testing.T) {
	var closed atomic.Int32
	w := newWorld(t, `
datacenters: {a: {store: {}}, b: {store: {}}}
defaults: {middleware: [stamp]}
routes:
  - {name: one, from: a/x, to: b/y, middleware: [{stamp: {mark: A, drop_every: 4}}, stamp, {stamp: {mark: B}}]}
  - {name: two, from: a/x, to: b/z}
`, stamping(&closed))
	w.produce("a", "x", 0, 100)
	w.run()
	w.arrives("b", "y", 75)
	w.arrives("b", "z", 100)
	for _, r := range w.store.Site("b").Messages("y") {
		require.Len(t, r.Headers, 1)
		require.Equal(t, "A!B", string(r.Headers[0].Value))
	}
	require.Equal(t, "!", string(w.store.Site("b").Messages("z")[0].Headers[0].Value))
	require.NoError(t, w.end())
	require.EqualValues(t, 25, w.status("one").Meter.Dropped.Load())
	require.EqualValues(t, 100, w.status("one").Meter.Committed.Load(), "a dropped message is acked")
	require.EqualValues(t, 4, closed.Load())
}

func TestMistakesInMiddlewareAreFoundByTheLoader(t *testing.T) {
	var closed atomic.Int32
	_, err := router.Parse("test.yml", []byte(`
datacenters: {a: {memory: {}}}
defaults: {middleware: [{stamp: {mark: ""}}]}
routes:
  - {name: one, from: a/x, to: a/y, middleware: [{stamp: {marks: A}}, {stamp: {}, other: {}}, [x]]}
  - {name: two, from: a/x, to: a/y, middleware: [stmp]}
  - {name: three, from: a/x, to: a/y, middleware: stamp}
  - {name: four, from: a/x, to: a/y}
  - {name: five, from: a/x, to: a/y, midleware: []}
`), stamping(&closed))
	for _, want := range []string{
		`test.yml:5: routes[0].middleware[0].stamp: unknown key "marks"; did you mean "mark"?`,
		`test.yml:5: routes[0].middleware[1]: is a mapping; write "name" or {name: {option: value}}`,
		`test.yml:5: routes[0].middleware[2]: is a list; write`,
		`test.yml:6: routes[1].middleware[0]: middleware "stmp" is not known (have: [stamp])`,
		`test.yml:7: routes[2].middleware: is a single value, not a list`,
		`test.yml:3: defaults.middleware[0].stamp.mark: is empty`,
		`test.yml:9: routes[4]: unknown key "midleware"; did you mean "middleware"?`,
	} {
		require.ErrorContains(t, err, want)
	}
	var all config.Errors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 7)
}

func TestMiddlewareThatCannotBeMadeIsShownAndTriedAgain(t *testing.T) {
	var tries atomic.Int32
	w := newWorld(t, `
datacenters: {a: {store: {}}, b: {store: {}}}
routes: [{name: one, from: a/x, to: b/y, middleware: [late]}]
`, router.WithMiddleware("late", middleware.New(
		func() struct{} { return struct{}{} },
		func(struct{}, middleware.Settings) (message.HandlerMiddleware, error) {
			if tries.Add(1) == 1 {
				return nil, errors.New("its service is down")
			}
			return func(next message.HandlerFunc) message.HandlerFunc { return next }, nil
		},
	)))
	w.produce("a", "x", 0, 10)
	w.run()
	w.arrives("b", "y", 10)
	require.NoError(t, w.end())
	require.Contains(t, w.log.String(), `middleware \"late\": its service is down`)
}
