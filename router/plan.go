package router

import (
	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// plan is a configuration of which everything is decoded and checked. Making it does no I/O.
type plan struct {
	dataCenters map[string]handlers.DataCenter
	routes      []routePlan
}

// routePlan is one route, with the brokers' own options decoded.
type routePlan struct {
	config.Route
	source      handlers.Options
	destination handlers.Options
	template    *record.Template // Of the destination's topic; nil when it is literal.
	policies    routeOptions
	custom      []link
	throttle    *middleware.ThrottleConfig    // Nil means no limit.
	deduplicate *middleware.DeduplicateConfig // Nil means that copies are delivered.
	poison      *poisonPlan                   // Nil means that nothing is parked.
}

// newPlan decodes all that others than package config have defined, and reports all mistakes at once.
func newPlan(cfg *config.Config, o *options) (*plan, error) {
	p := &plan{dataCenters: map[string]handlers.DataCenter{}}
	var errs []error
	for _, d := range cfg.DataCenters {
		b, ok := o.brokers[d.Broker]
		if !ok {
			errs = append(errs, d.Options.Errorf("broker %q is not known", d.Broker))
			continue
		}
		dc, err := b.DataCenter(d.Options)
		errs = append(errs, err)
		p.dataCenters[d.Name] = dc
	}
	for _, r := range cfg.Routes {
		route, err := p.route(r)
		if err = config.Join(err, p.policies(&route, o.custom)); err != nil {
			errs = append(errs, err)
			continue
		}
		p.routes = append(p.routes, route)
	}
	return p, config.Join(errs...)
}

// route decodes the options of both ends. An end whose data center is not known is passed over: that error is reported already.
func (p *plan) route(r config.Route) (routePlan, error) {
	route := routePlan{Route: r}
	var errs []error
	if dc, ok := p.dataCenters[r.From.DataCenter]; ok {
		o, err := dc.SourceOptions(r.From)
		route.source = o
		route.From.Topic, err = place(r.From.Options, r.From.Topic, o, r.From.Group, err)
		errs = append(errs, err)
	}
	if dc, ok := p.dataCenters[r.To.DataCenter]; ok {
		o, err := dc.DestinationOptions(r.To)
		route.destination = o
		route.To.Topic, err = place(r.To.Options, r.To.Topic, o, "", err)
		errs = append(errs, err)
		if placed(o, "") == "" {
			errs = append(errs, route.fill(r.To.Topic))
		}
	}
	return route, config.Join(errs...)
}

// place gives the topic of an end, or what its options name instead. Wrong is the mistake in the options, if there is one.
func place(at config.Raw, topic string, options handlers.Options, group string, wrong error) (string, error) {
	if wrong != nil {
		return topic, wrong
	}
	instead := placed(options, group)
	switch {
	case topic == "" && instead == "":
		return "", at.Locate(config.Invalid("topic", "is missing; write the name of a topic"))
	case topic != "" && instead != "" && topic != instead:
		return topic, at.Errorf("has a topic, %q, and names another place as well: leave one of them out", topic)
	case topic == "":
		return instead, nil
	}
	return topic, nil
}

// placed gives the place that options name, if they do.
func placed(options handlers.Options, group string) string {
	if p, ok := options.(handlers.Placed); ok {
		return p.Place(group)
	}
	return ""
}

// name gives the ends that their brokers have named a topic in cfg too.
func (p *plan) name(cfg *config.Config) {
	for i := range cfg.Routes {
		for _, r := range p.routes {
			if r.Name == cfg.Routes[i].Name {
				cfg.Routes[i].From.Topic = r.From.Topic
				if cfg.Routes[i].To.Topic == "" { // Otherwise it may be escaped.
					cfg.Routes[i].To.Topic = r.To.Topic
				}
			}
		}
	}
}

// fill finds the placeholders in the destination's topic. The short form has none.
func (r *routePlan) fill(topic string) error {
	if topic == "" {
		return nil
	}
	t, err := record.ParseTemplate(topic)
	if err != nil {
		return r.To.Options.Locate(config.Invalid("topic", "%w", err))
	}
	if literal, ok := t.Literal(); ok {
		r.To.Topic = literal
	} else {
		r.template = &t
	}
	return nil
}
