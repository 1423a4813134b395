package router

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/middleware"
)

// Option changes a router beyond what its config file says.
type Option func(*options) error

type options struct {
	brokers  map[string]handlers.Broker
	custom   map[string]middleware.Middleware
	logger   *slog.Logger
	instance string
}

// WithBroker adds a kind of broker, under the name that data centers in the config file use for it. A name that is taken is an error.
func WithBroker(name string, b handlers.Broker) Option {
	return func(o *options) error {
		if _, taken := o.brokers[name]; taken {
			return fmt.Errorf("broker %q is there already: choose another name", name)
		}
		o.brokers[name] = b
		return nil
	}
}

// WithMiddleware adds a kind of middleware, under the name that routes in the config file use for it: "middleware: [{name: {options}}]". A name that is
// taken is an error.
func WithMiddleware(name string, m middleware.Middleware) Option {
	return func(o *options) error {
		if _, taken := o.custom[name]; taken {
			return fmt.Errorf("middleware %q is there already: choose another name", name)
		}
		o.custom[name] = m
		return nil
	}
}

// WithLogger sends the router's log to l. Without it the router is silent.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		o.logger = l
		return nil
	}
}

// WithInstance names this process among those that share its groups. It must be the same after a restart; the default is the host's name.
func WithInstance(name string) Option {
	return func(o *options) error {
		o.instance = name
		return nil
	}
}

func newOptions(opts []Option) (*options, error) {
	o := &options{brokers: brokers(), custom: map[string]middleware.Middleware{}, logger: slog.New(slog.DiscardHandler)}
	var errs []error
	for _, set := range opts {
		errs = append(errs, set(o))
	}
	if o.instance == "" {
		o.instance = hostname()
	}
	return o, errors.Join(errs...)
}

func hostname() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "mqferry"
}

// Load reads a configuration from files and folders, and checks everything that can be checked without a network, the brokers' own options
// included. All mistakes are reported at once.
func Load(paths []string, opts ...Option) (*config.Config, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	return config.Load(paths, o.checks()...)
}

// Parse is Load for a text that is not in a file; name stands for the file in errors.
func Parse(name string, text []byte, opts ...Option) (*config.Config, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	return config.Parse(name, text, o.checks()...)
}

// checks lets the config reader report what the brokers find in the same run.
func (o *options) checks() []config.Option {
	return []config.Option{
		config.WithBrokers(slices.Collect(maps.Keys(o.brokers))...),
		config.WithRouteKeys(routeKeys()...),
		config.WithCheck(func(cfg *config.Config) error {
			p, err := newPlan(cfg, o)
			p.name(cfg)
			return err
		}),
	}
}
