package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqferry/mqferry/router/command/demo"
)

// demo is the command of that name.
func (p program) demo(ctx context.Context, args []string) int {
	o := demo.Options{Out: p.out, Terminal: p.outTerminal}
	set := flags("demo")
	set.DurationVar(&o.For, "for", 10*time.Second, "")
	set.IntVar(&o.Rate, "rate", 2000, "")
	set.StringVar(&o.Admin, "admin", "127.0.0.1:0", "")
	if code, stop := p.parse(set, args); stop {
		return code
	}
	if err := o.Validate(); err != nil {
		return p.misused(fmt.Errorf("demo: %w", err), "mqferry help demo")
	}
	err := demo.Run(ctx, o)
	switch {
	case errors.Is(err, demo.ErrFailed): // Its last line has said so.
		return failed
	case err != nil:
		fmt.Fprintf(p.err, "mqferry demo: %v\n", err)
		return failed
	}
	return good
}
