package router

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/middleware"
)

// link is a middleware of one route, with its options decoded.
type link struct {
	name string
	make middleware.Maker
}

// chain is the only place where the order of a route's middleware is decided. Outermost first; the relay, which publishes, is innermost. Where a message waits for
// its turn, the throttle holds it back. What is off is not there. GiveUp is what takes a message that is given up; nil leaves it to its lane.
func chain(p routePlan, giveUp message.HandlerMiddleware, s middleware.Settings) ([]message.HandlerMiddleware, error) {
	links := []message.HandlerMiddleware{middleware.Stack, middleware.AckForward(s), middleware.Recoverer(s)}
	if giveUp != nil {
		links = append(links, giveUp)
	}
	links = append(links, middleware.Retry(p.policies.Retry, s))
	own, err := ownLinks(p, s)
	if err != nil {
		return nil, err
	}
	links = append(links, own...)
	if p.policies.MaxMessageBytes > 0 {
		links = append(links, middleware.SizeLimit(p.policies.MaxMessageBytes, s))
	}
	if p.deduplicate != nil {
		links = append(links, middleware.Deduplicate(*p.deduplicate, s))
	}
	if p.throttle != nil {
		middleware.Throttle(*p.throttle, s)
	}
	return links, nil
}

// ownLinks are the route's own middleware, and what stands around it.
func ownLinks(p routePlan, s middleware.Settings) ([]message.HandlerMiddleware, error) {
	if len(p.custom) == 0 {
		return nil, nil
	}
	var before, after []message.HandlerMiddleware
	if p.policies.Concurrency > 0 {
		take, free := middleware.Slots()
		before, after = append(before, take), append(after, free)
	}
	before = append(before, middleware.Recoverer(s))
	if p.policies.Timeout > 0 {
		begin, end := middleware.Timeout(p.policies.Timeout)
		before, after = append(before, begin), append(after, end)
	}
	for _, l := range p.custom {
		made, err := l.make(s)
		if err != nil {
			return nil, fmt.Errorf("middleware %q: %w", l.name, err)
		}
		before = append(before, made)
	}
	slices.Reverse(after)
	return append(before, after...), nil
}

// customLinks decodes the middleware that a route lists.
func customLinks(list config.Raw, known map[string]middleware.Middleware) ([]link, error) {
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
