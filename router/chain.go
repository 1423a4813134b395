package router

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/middleware"
)

// middlewareKey is the key of a route under which its own middleware is listed.
const middlewareKey = "middleware"

// link is a middleware of one route, with its options decoded.
type link struct {
	name string
	make middleware.Maker
}

// chain is the only place where the order of a route's middleware is decided. Outermost first; the relay, which publishes, is innermost.
func chain(p routePlan, s middleware.Settings) ([]message.HandlerMiddleware, error) {
	links := []message.HandlerMiddleware{
		middleware.Stack,
		middleware.AckForward(s),
		middleware.Recoverer(s),
	}
	for _, l := range p.custom {
		made, err := l.make(s)
		if err != nil {
			return nil, fmt.Errorf("middleware %q: %w", l.name, err)
		}
		links = append(links, made)
	}
	return links, nil
}

// customLinks decodes the middleware that a route lists.
func customLinks(options config.Raw, known map[string]middleware.Middleware) ([]link, error) {
	list, _ := options.Child(middlewareKey)
	items, err := list.Items()
	if err != nil {
		return nil, err
	}
	links := make([]link, 0, len(items))
	var errs []error
	for _, item := range items {
		name, own, err := item.Named()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m, ok := known[name]
		if !ok {
			errs = append(errs, item.Errorf("middleware %q is not known%s", name, have(known)))
			continue
		}
		made, err := m.Decode(own)
		errs = append(errs, err)
		links = append(links, link{name: name, make: made})
	}
	return links, config.Join(errs...)
}

func have(known map[string]middleware.Middleware) string {
	if len(known) == 0 {
		return `: this mqferry has none of its own; a copy of main.go adds them with router.WithMiddleware`
	}
	return fmt.Sprintf(" (have: %v)", slices.Sorted(maps.Keys(known)))
}
