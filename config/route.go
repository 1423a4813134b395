package config

import (
	"reflect"
	"slices"
)

// routeKeys is what a route may also take from defaults.
type routeKeys struct {
	// Window is how many messages of one lane may be in flight: fetched and not yet acked.
	Window int `yaml:"window"`
	// WindowBytes is how many bytes of the whole route may be in flight.
	WindowBytes Size `yaml:"window_bytes"`
	// Order is lane: messages of a lane go out in order, many on the wire; or strict: one of a lane on the wire at a time.
	Order Order `yaml:"order"`
}

// sharedText is what routes share.
type sharedText struct {
	Keys routeKeys `yaml:",inline"`
	Rest Raw       `yaml:",inline"`
}

func defaultKeys() routeKeys {
	return routeKeys{Window: DefaultWindow, WindowBytes: DefaultWindowBytes, Order: OrderLane}
}

// Validate reports windows that are too small or too large.
func (k routeKeys) Validate() error {
	var window, bytes error
	if k.Window < 1 || k.Window > MaxWindow {
		window = Invalid("window", `"%d" is not between 1 and %d messages`, k.Window, MaxWindow)
	}
	if k.WindowBytes < MinWindowBytes {
		bytes = Invalid("window_bytes", `"%v" is too little; it must be at least %v`, k.WindowBytes, MinWindowBytes)
	}
	return Join(window, bytes)
}

// routeText is a route as a file has it.
type routeText struct {
	// Name is the identity of the route, also at its source: see group.
	Name string `yaml:"name"`
	// From is where messages are fetched: "datacenter/topic", or the long form with options.
	From Raw `yaml:"from"`
	// To is where they are delivered: "datacenter/topic", or the long form with options.
	To   Raw       `yaml:"to"`
	Keys routeKeys `yaml:",inline"`
	Rest Raw       `yaml:",inline"`
}

// further gives the keys that others decode, and reports those that neither they nor the type of text have.
func (a *assembly) further(n *node, rest Raw, text reflect.Type) Raw {
	if rest.node == nil {
		return rest
	}
	var known []entry
	for _, e := range rest.node.entries {
		if slices.Contains(a.keys, e.name) {
			known = append(known, e)
			continue
		}
		a.unknown(n, e, append(fieldsOf(text).names(), a.keys...))
	}
	return Raw{rest.node.with(known)}
}

// Validate reports what must be there and is not.
func (r routeText) Validate() error {
	var name, from, to error
	if r.Name == "" {
		name = Invalid("name", "is missing; a route goes by its name in its source's group, in logs and in metrics")
	} else if !isName(r.Name) {
		name = Invalid("name", "%q cannot be the name of a route; write up to 200 letters, digits, '.', '_' and '-'", r.Name)
	}
	if r.From.node == nil {
		from = Invalid("from", `is missing; write "datacenter/topic"`)
	}
	if r.To.node == nil {
		to = Invalid("to", `is missing; write "datacenter/topic"`)
	}
	return Join(name, from, to)
}

func (a *assembly) addRoutes(n *node) {
	switch {
	case n.kind == null || n.broken:
	case n.kind != list:
		a.fail(n, `is %s, not a list; begin each route with "- name:"`, n.what())
	default:
		a.routes = append(a.routes, n.items...)
	}
}

// defaults returns what the routes share, without what is no good in it, or nil.
func (a *assembly) defaults() *node {
	e, ok := a.sections["defaults"]
	if !ok || e.node.kind != mapping {
		if ok {
			a.decode(e.node, &sharedText{})
		}
		return nil
	}
	var keys []entry
	for _, inner := range e.node.entries {
		if inner.name == "name" || inner.name == "from" || inner.name == "to" {
			a.fail(inner.node, "cannot be a default; write it at each route")
			continue
		}
		keys = append(keys, inner)
	}
	n := e.node.with(keys)
	values := sharedText{Keys: defaultKeys()}
	a.decode(n, &values)
	a.further(n, values.Rest, reflect.TypeFor[sharedText]())
	known := append(fieldsOf(reflect.TypeFor[sharedText]()).names(), a.keys...)
	return n.with(slices.DeleteFunc(slices.Clone(keys), func(e entry) bool { return !slices.Contains(known, e.name) }))
}

// over returns the node with what the defaults have and it has not. The places stay where the values are.
func (n *node) over(defaults *node) *node {
	if defaults == nil || n.kind != mapping {
		return n
	}
	entries := slices.Clone(n.entries)
	for _, d := range defaults.entries {
		if n.child(d.name) == nil {
			entries = append(entries, d)
		}
	}
	return n.with(entries)
}

func (a *assembly) route(n, defaults *node, names map[string]*node) {
	n = n.over(defaults)
	text := routeText{Keys: defaultKeys()}
	if n.kind == null {
		a.fail(n, "is empty; write name, from and to")
		return
	}
	a.decode(n, &text)
	if n.kind != mapping {
		return
	}
	options := a.further(n, text.Rest, reflect.TypeFor[routeText]())
	a.name(n.place("name"), text.Name, names)
	route := Route{
		Name: text.Name, Raw: Raw{n}, Options: options,
		Window: text.Keys.Window, WindowBytes: text.Keys.WindowBytes, Order: text.Keys.Order,
	}
	var ok bool
	if route.From, ok = a.source(text.From.node, text.Name); !ok {
		a.destination(text.To.node)
		return
	}
	if route.To, ok = a.destination(text.To.node); !ok {
		return
	}
	if route.From.String() == route.To.String() && route.From.Topic != "" {
		a.fail(text.To.node, "the route would feed itself: from and to are the same topic of the same data center")
	}
	a.config.Routes = append(a.config.Routes, route)
}

// name reports a name that another route has.
func (a *assembly) name(n *node, name string, names map[string]*node) {
	if name == "" || n.broken {
		return
	}
	if first, twice := names[name]; twice {
		a.fail(n, "route %s is there twice; the other one is at %s", n.shown(), first.where())
		return
	}
	names[name] = n
}

// sharedGroups reports routes that would take each other's messages.
func (a *assembly) sharedGroups() {
	type reader struct{ dataCenter, topic, group string }
	first := map[reader]Route{}
	for _, r := range a.config.Routes {
		if r.From.Topic == "" {
			continue // The broker knows what it reads.
		}
		key := reader{r.From.DataCenter, r.From.Topic, r.From.Group}
		other, twice := first[key]
		if !twice {
			first[key] = r
			continue
		}
		if other.Name == r.Name {
			continue // Reported as a name that is there twice.
		}
		from := r.Raw.node.place("from")
		a.fail(from, "reads the same topic in the same group as the route at %s: each would get a part of the messages", other.Raw.node.where())
	}
}
