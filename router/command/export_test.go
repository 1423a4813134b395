package command

import (
	"context"
	"io"
	"log/slog"

	"github.com/mqferry/mqferry/router"
)

// RunWith is Run with other outputs, neither of which is a terminal.
func RunWith(ctx context.Context, out, err io.Writer, args []string, opts ...router.Option) int {
	return program{out: out, err: err, opts: opts}.run(ctx, args)
}

// Report reports what status says until ctx ends.
func Report(ctx context.Context, status func() []router.Status, logger *slog.Logger) {
	newReporter(status, logger).run(ctx)
}

// RunOnTerminal is RunWith with outputs that are taken for a terminal.
func RunOnTerminal(ctx context.Context, out, err io.Writer, args []string, opts ...router.Option) int {
	return program{out: out, err: err, outTerminal: true, errTerminal: true, opts: opts}.run(ctx, args)
}
