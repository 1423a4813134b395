package router

import (
	"fmt"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// plan is a configuration of which everything is decoded and checked. Making it does no I/O.
type plan struct {
	config *config.Config
	sites  map[string]handlers.DataCenter
	routes []routePlan
}

// routePlan is one route, with the brokers' own options decoded.
type routePlan struct {
	config.Route
	source      handlers.Options
	destination handlers.Options
}

// newPlan decodes every broker's options with the table of brokers, and reports all mistakes at once.
func newPlan(cfg *config.Config, brokers map[string]handlers.Broker) (*plan, error) {
	p := &plan{config: cfg, sites: map[string]handlers.DataCenter{}}
	var errs []error
	for _, d := range cfg.DataCenters {
		b, ok := brokers[d.Broker]
		if !ok {
			errs = append(errs, d.Options.Errorf("broker %q is not known", d.Broker))
			continue
		}
		site, err := b.DataCenter(d.Options)
		errs = append(errs, err)
		p.sites[d.Name] = site
	}
	for _, r := range cfg.Routes {
		route, err := p.route(r)
		if err != nil {
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
	if site, ok := p.sites[r.From.DataCenter]; ok {
		o, err := site.SourceOptions(r.From.Options)
		route.source = o
		errs = append(errs, err)
	}
	if site, ok := p.sites[r.To.DataCenter]; ok {
		o, err := site.DestinationOptions(r.To.Options)
		route.destination = o
		errs = append(errs, err)
	}
	if err := config.Join(errs...); err != nil {
		return route, err
	}
	return route, nil
}

// String names the route's way, for people.
func (r routePlan) String() string {
	return fmt.Sprintf("%s/%s -> %s/%s", r.From.DataCenter, r.From.Topic, r.To.DataCenter, r.To.Topic)
}
