package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/router"
)

// connectTimeout bounds what validate --connect and poison wait for the brokers.
const connectTimeout = 15 * time.Second

// validate is the command of that name.
func (p program) validate(ctx context.Context, args []string) int {
	var from paths
	var connect, schema bool
	set := flags("validate")
	set.Var(&from, "c", "")
	set.BoolVar(&connect, "connect", false, "")
	set.BoolVar(&schema, "schema", false, "")
	if code, stop := p.parse(set, args); stop {
		return code
	}
	if schema {
		return p.schema()
	}
	cfg, code, stop := p.load(set, from)
	if stop {
		return code
	}
	if connect {
		return p.inspect(ctx, cfg)
	}
	fmt.Fprintf(p.out, "ok: %s\n", size(cfg))
	for _, r := range cfg.Routes {
		fmt.Fprintf(p.out, "  %s: %s -> %s\n", r.Name, r.From, r.To)
	}
	return good
}

// schema prints the JSON Schema of configurations.
func (p program) schema() int {
	text, err := router.Schema(p.opts...)
	if err != nil {
		fmt.Fprintf(p.err, "mqferry validate: %v\n", err)
		return failed
	}
	// Whoever closed the output wants no more of it.
	_, _ = p.out.Write(text)
	return good
}

// inspect prints what every route would find at its brokers.
func (p program) inspect(ctx context.Context, cfg *config.Config) int {
	r, err := router.New(cfg, p.opts...)
	if err != nil {
		return p.mistaken(err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	found := r.Inspect(ctx)
	bad := 0
	for _, i := range found {
		if i.Err() != nil {
			bad++
		}
	}
	if bad == 0 {
		fmt.Fprintf(p.out, "ok: %s\n", size(cfg))
	} else {
		fmt.Fprintf(p.out, "not ok: %d of %s would not work\n", bad, size(cfg))
	}
	for _, i := range found {
		fmt.Fprintf(p.out, "  %s\n", i.Route)
		p.finding("from", i.Source)
		p.finding("to", i.Destination)
		if i.Poison != nil {
			p.finding("poison", *i.Poison)
		}
	}
	if bad > 0 {
		return failed
	}
	return good
}

func (p program) finding(side string, f router.Finding) {
	text := f.Text
	switch {
	case f.Err != nil:
		text = "error: " + f.Err.Error()
	case text == "":
		text = "connected"
	}
	fmt.Fprintf(p.out, "    %-6s %s: %s\n", side, f.End, text)
}

// size says how much there is in a configuration.
func size(cfg *config.Config) string {
	return fmt.Sprintf("%s, %s", count(len(cfg.Routes), "route"), count(len(cfg.DataCenters), "data center"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
