package demo_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration/ledger"
	"github.com/mqferry/mqferry/router/command/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// show runs a demo of a second, and gives what it wrote.
func show(t *testing.T, change func(*demo.Options)) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o := demo.Options{For: time.Second, Rate: 2000, Admin: "127.0.0.1:0", Out: &out}
	change(&o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := demo.Run(ctx, o)
	return out.String(), err
}

func TestEveryOrderArrivesOnceThoughTheLinkGoesDead(t *testing.T) {
	out, err := show(t, func(*demo.Options) {})
	require.NoError(t, err, out)
	require.Contains(t, out, "the link goes dead for 200ms\n")
	require.Contains(t, out, "the link is back, and ")
	require.Regexp(t, `\ndemo: \d+ produced, \d+ delivered, 0 lost, 0 duplicated, 0 out of order\n$`, out)
}

func TestAnOrderThatNeverArrivesFailsTheDemo(t *testing.T) {
	books := ledger.New()
	books.Produced("customer-99", 0, 0)
	out, err := show(t, func(o *demo.Options) { o.Ledger = books })
	require.ErrorIs(t, err, demo.ErrFailed)
	require.Contains(t, out, "lost: customer-99, order 0: ")
	require.Regexp(t, `\ndemo: \d+ produced, \d+ delivered, 1 lost, 0 duplicated, 0 out of order\n$`, out)
}

func TestADemoWithoutAnEndIsStoppedByItsContext(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.NoError(t, demo.Run(ctx, demo.Options{Rate: 100, Admin: "127.0.0.1:0", Out: &out}), out.String())
	require.Contains(t, out.String(), "until Ctrl-C")
	require.Regexp(t, `\ndemo: [1-9]\d* produced, .* 0 lost, 0 duplicated, 0 out of order\n$`, out.String())
}

func TestTheLineOfProgressIsRewrittenOnATerminalOnly(t *testing.T) {
	out, err := show(t, func(o *demo.Options) { o.Terminal = true })
	require.NoError(t, err, out)
	require.Contains(t, out, "\r  ")
	require.True(t, strings.HasSuffix(out, " out of order\n"))
	out, err = show(t, func(*demo.Options) {})
	require.NoError(t, err, out)
	require.NotContains(t, out, "\r")
}
