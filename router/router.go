package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

// Router runs all routes of a configuration. Make it with New, run it once with Run; Status may be asked at any time.
type Router struct {
	logger *slog.Logger
	sites  []*site
	routes []*route
	ran    atomic.Bool
}

// errAlreadyRun is a mistake of the program that embeds a router.
var errAlreadyRun = errors.New("a router runs once: make another")

// Format writes the same few words whatever the verb is: a router holds secrets, and a dump of it would show them.
func (r *Router) Format(state fmt.State, _ rune) {
	// A failing writer is the business of whoever called fmt.
	_, _ = fmt.Fprintf(state, "router of %d routes", len(r.routes))
}

// New checks cfg and makes a router of it. It does not connect to anything.
func New(cfg *config.Config, opts ...Option) (*Router, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(cfg, o)
	if err != nil {
		return nil, err
	}
	r := &Router{logger: o.logger}
	sites := map[string]*site{}
	for _, d := range cfg.DataCenters {
		s := newSite(d.Name, p.dataCenters[d.Name], o.logger, o.instance)
		sites[d.Name] = s
		r.sites = append(r.sites, s)
	}
	// A quarter is for what the brokers' clients have fetched ahead: each keeps below a quarter of its route's bytes.
	memory := lane.NewBudget(int64(cfg.Memory) / 4 * 3)
	share := int64(cfg.Memory) / int64(max(len(p.routes), 1))
	for _, plan := range p.routes {
		route := newRoute(plan, time.Duration(cfg.ShutdownTimeout), sites, o.logger)
		route.budget = memory.Part(int64(plan.WindowBytes))
		route.bytes = min(int64(plan.WindowBytes), share)
		r.routes = append(r.routes, route)
	}
	return r, nil
}

// announceStop says what a stop waits for.
func (r *Router) announceStop() {
	inFlight := 0
	for _, s := range r.Status() {
		inFlight += s.InFlight()
	}
	r.logger.Info("stopping, once what is in flight is settled", "in_flight", inFlight)
}

func newRoute(p routePlan, shutdown time.Duration, sites map[string]*site, logger *slog.Logger) *route {
	logger = logger.With("route", p.Name)
	made := &route{
		plan: p, from: sites[p.From.DataCenter], to: sites[p.To.DataCenter],
		logger: logger, shutdown: shutdown,
		meter:             &handlers.Meter{},
		sourceHealth:      handlers.NewHealth(logger.With("end", "source", "datacenter", p.From.DataCenter, "topic", p.From.Topic)),
		destinationHealth: handlers.NewHealth(logger.With("end", "destination", "datacenter", p.To.DataCenter, "topic", p.To.Topic)),
		phase:             Waiting,
	}
	if p.poison != nil {
		made.poison = sites[p.poison.dataCenter]
		made.poisonHealth = handlers.NewHealth(logger.With("end", "poison", "datacenter", p.poison.dataCenter, "topic", p.poison.topic))
	}
	return made
}

// Run keeps all routes running until ctx ends, then stops them cleanly, which takes at most the configuration's shutdown_timeout and a few seconds. A
// broker that is down is waited for, while the other routes run. It returns what went wrong while stopping: nil means that everything in flight
// was settled and acked.
func (r *Router) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return errAlreadyRun
	}
	opening, stopOpening := context.WithCancel(ctx)
	defer stopOpening()
	var opened, running sync.WaitGroup
	for _, s := range r.sites {
		opened.Go(func() { s.open(opening) })
	}
	defer context.AfterFunc(ctx, r.announceStop)()
	errs := make([]error, len(r.routes))
	for i, route := range r.routes {
		running.Go(func() { errs[i] = route.run(ctx) })
	}
	running.Wait()
	stopOpening()
	opened.Wait()
	for _, s := range r.sites {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
