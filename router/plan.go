package router

import (
	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
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
}

// newPlan decodes every broker's options with the table of brokers, and reports all mistakes at once.
func newPlan(cfg *config.Config, brokers map[string]handlers.Broker) (*plan, error) {
	p := &plan{dataCenters: map[string]handlers.DataCenter{}}
	var errs []error
	for _, d := range cfg.DataCenters {
		b, ok := brokers[d.Broker]
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
	if dc, ok := p.dataCenters[r.From.DataCenter]; ok {
		o, err := dc.SourceOptions(r.From.Options)
		route.source = o
		errs = append(errs, err)
	}
	if dc, ok := p.dataCenters[r.To.DataCenter]; ok {
		o, err := dc.DestinationOptions(r.To.Options)
		route.destination = o
		errs = append(errs, err)
	}
	if err := config.Join(errs...); err != nil {
		return route, err
	}
	return route, nil
}
