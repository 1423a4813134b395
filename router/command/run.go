package command

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/admin"
)

// carry is the command run: it carries messages until ctx ends.
func (p program) carry(ctx context.Context, args []string) int {
	var from paths
	var instance string
	look := logLook{level: "info", format: "auto"}
	set := flags("run")
	set.Var(&from, "c", "")
	set.StringVar(&instance, "instance", "", "")
	set.Func("log-level", "", choose(&look.level, "debug", "info", "warn", "error"))
	set.Func("log-format", "", choose(&look.format, "auto", "text", "json"))
	if code, stop := p.parse(set, args); stop {
		return code
	}
	cfg, code, stop := p.load(set, from)
	if stop {
		return code
	}
	limitMemory(cfg)
	logger := p.logger(look)
	// In front, so that a binary's own options have the last word.
	opts := append([]router.Option{router.WithLogger(logger), router.WithInstance(instance)}, p.opts...)
	r, err := router.New(cfg, opts...)
	if err != nil {
		return p.mistaken(err)
	}
	return serve(ctx, cfg, r, logger)
}

// limitMemory lets the garbage collector work harder before garbage doubles what the configuration allows in flight. GOMEMLIMIT has the last word.
func limitMemory(cfg *config.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(cfg.Memory)/4*5 + 128<<20)
	}
}

// serve runs the router between the start and the end of all that stands around it.
func serve(ctx context.Context, cfg *config.Config, r *router.Router, logger *slog.Logger) int {
	logger.Info("starting", "version", version(), "routes", len(cfg.Routes), "datacenters", len(cfg.DataCenters), "files", cfg.Sources)
	if cfg.Admin.Listen != "" {
		listener, err := admin.Listen(cfg.Admin)
		if err != nil {
			logger.Error("not started", "error", err)
			return failed
		}
		pages := admin.Serve(listener, admin.New(r), logger)
		defer pages.Stop() // Last, so that a stop that takes long can be watched.
		logger.Info("serving health and metrics", "url", admin.URL(cfg.Admin, listener))
	}
	// Not with ctx: a stop that takes long is to be reported too.
	reporting, stopReporting := context.WithCancel(context.WithoutCancel(ctx))
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		newReporter(r.Status, logger).run(reporting)
	}()
	err := r.Run(ctx)
	stopReporting()
	<-reported
	if err != nil {
		logger.Error("stopped, but not cleanly", "error", err)
		return failed
	}
	logger.Info("stopped cleanly")
	return good
}
