package config

import (
	"fmt"
	"slices"
)

// assembly puts the files together.
type assembly struct {
	decoder
	config   *Config
	brokers  []string
	keys     []string         // further ones of a route
	sections map[string]entry // those that may be there once
	centers  map[string]*node // also those that are no good, so that their routes are not reported too
	routes   []*node
}

// config returns the configuration that the files make together, or everything that is wrong with them.
func (l *loader) config() (*Config, error) {
	if l.missing {
		// What is defined in a file that cannot be read would only be reported as not defined.
		return nil, Join(l.errs...)
	}
	a := &assembly{
		config: &Config{
			Memory: DefaultMemory, ShutdownTimeout: DefaultShutdownTimeout, Sources: l.sources,
		},
		brokers:  l.brokers,
		keys:     l.routeKeys,
		sections: map[string]entry{},
		centers:  map[string]*node{},
	}
	for _, top := range l.tops {
		a.file(top)
	}
	a.build(l.tops)
	l.errs = append(l.errs, a.errs...)
	for _, check := range l.checks {
		l.errs = append(l.errs, check(a.config))
	}
	if err := Join(l.errs...); err != nil {
		return nil, err
	}
	return a.config, nil
}

func (a *assembly) file(top *node) {
	known := []string{"datacenters", "routes", "defaults", "admin", "memory", "shutdown_timeout"}
	for _, e := range top.entries {
		switch e.name {
		case "datacenters":
			a.dataCenters(e.node)
		case "routes":
			a.addRoutes(e.node)
		case "defaults", "admin", "memory", "shutdown_timeout":
			a.section(e)
		default:
			a.unknown(top, e, known)
		}
	}
}

// section keeps what may be there once.
func (a *assembly) section(e entry) {
	if first, twice := a.sections[e.name]; twice {
		a.fail(e.node, "is there twice; the other one is at %s", first.node.where())
		return
	}
	a.sections[e.name] = e
}

// build makes the sections, then the routes, which need them.
func (a *assembly) build(tops []*node) {
	a.admin()
	a.limits()
	defaults := a.defaults()
	if len(a.centers) == 0 && !a.said(tops, "datacenters") {
		a.none(tops[0], "datacenters", `"datacenters: {here: {kafka: {brokers: [...]}}}"`)
	}
	if len(a.routes) == 0 && !a.said(tops, "routes") {
		a.none(tops[0], "routes", `"routes: [{name: orders, from: here/orders, to: there/orders}]"`)
	}
	names := map[string]*node{}
	for _, n := range a.routes {
		a.route(n, defaults, names)
	}
	a.sharedGroups()
	a.circles()
}

// said tells whether a mistake was reported at a key of one of the files, or in it.
func (a *assembly) said(tops []*node, key string) bool {
	return slices.ContainsFunc(tops, func(top *node) bool {
		at := top.place(key)
		return at.broken || slices.ContainsFunc(a.bad, func(bad string) bool { return within(bad, spot(at)) })
	})
}

// none reports a section that no file has anything in.
func (a *assembly) none(top *node, key, example string) {
	a.errs = append(a.errs, &problem{file: top.document.name, path: key, text: "none is defined; write for example " + example})
}

func (a *assembly) admin() {
	if e, ok := a.sections["admin"]; ok {
		a.decode(e.node, &a.config.Admin)
	}
}

func (a *assembly) limits() {
	if e, ok := a.sections["memory"]; ok {
		a.decode(e.node, &a.config.Memory)
		if a.config.Memory < MinMemory {
			a.misfit(e.node, fmt.Errorf("%s is too little; it must be at least %v", e.node.shown(), MinMemory))
		}
	}
	if e, ok := a.sections["shutdown_timeout"]; ok {
		a.decode(e.node, &a.config.ShutdownTimeout)
		if a.config.ShutdownTimeout == 0 {
			a.misfit(e.node, fmt.Errorf("%s leaves no time to settle what is in flight; it must be more than 0", e.node.shown()))
		}
	}
}

func (a *assembly) dataCenters(n *node) {
	if n.kind == null || n.broken {
		return
	}
	if n.kind != mapping {
		a.fail(n, `is %s, not a mapping of names; write for example "here: {kafka: {brokers: [...]}}"`, n.what())
		return
	}
	for _, e := range n.entries {
		if first, twice := a.centers[e.name]; twice {
			a.fail(e.node, "data center %s is there twice; the other one is at %s", quoted(e.name), first.where())
			continue
		}
		a.centers[e.name] = e.node
		a.dataCenter(e)
	}
}

func (a *assembly) dataCenter(e entry) {
	n := e.node
	if !isName(e.name) {
		a.fail(n, "%s cannot be the name of a data center; write up to 200 letters, digits, '.', '_' and '-'", quoted(e.name))
	}
	if n.kind != mapping && n.kind != null {
		a.fail(n, `is %s, not a mapping; write for example "kafka: {brokers: [...]}"`, n.what())
		return
	}
	if len(n.entries) == 0 {
		a.fail(n, `has no broker; write for example "kafka: {brokers: [...]}"%s`, a.have())
		return
	}
	known := true
	for _, broker := range n.entries {
		if a.brokers != nil && !slices.Contains(a.brokers, broker.name) {
			a.bad = append(a.bad, spot(n))
			a.errs = append(a.errs, n.errorAt(broker.line, broker.column,
				"broker %s is not known%s", quoted(broker.name), instead(broker.name, sorted(a.brokers))))
			known = false
		}
	}
	if len(n.entries) > 1 && known {
		second := n.entries[1]
		a.errs = append(a.errs, n.errorAt(second.line, second.column,
			"has several brokers, %s and %s; write a site with two brokers as two data centers", n.entries[0].name, second.name))
		known = false
	}
	if known {
		a.config.DataCenters = append(a.config.DataCenters, DataCenter{Name: e.name, Broker: n.entries[0].name, Options: Raw{n.entries[0].node}})
	}
}

// have lists the brokers that there are, where that is known.
func (a *assembly) have() string {
	if a.brokers == nil {
		return ""
	}
	return instead("", sorted(a.brokers))
}
