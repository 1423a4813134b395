package config

import "strings"

// circles reports routes whose messages would go round for ever: each route that closes a circle with those before it.
func (a *assembly) circles() {
	next := map[string][]Route{} // By the end that they read.
	for _, r := range a.config.Routes {
		from, to := r.From.String(), r.To.String()
		if from == to || r.From.Topic == "" || r.To.Topic == "" {
			continue // Reported as a route that would feed itself, or known only to the broker.
		}
		if way := path(next, to, from, map[string]bool{}); way != nil {
			a.fail(r.Raw.node.place("to"), "the routes go in a circle, %s -> %s: messages would go round for ever", from, strings.Join(way, " -> "))
			continue
		}
		next[from] = append(next[from], r)
	}
}

// path gives the ends on a way along routes, or nil when there is none.
func path(next map[string][]Route, from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, r := range next[from] {
		if way := path(next, r.To.String(), to, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}
