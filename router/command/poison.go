package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mqferry/mqferry/router"
)

// poisonCall is one call of the command "poison".
type poisonCall struct {
	program
	action     poisonAction
	route      string
	from       paths
	limit      int
	expression string
	all, json  bool
	dryRun     bool
	matches    func(router.ParkedMessage) bool
	taken      int // Of the limit.
}

// poisonAction is what can be done with a poison queue.
type poisonAction struct {
	name string
	do   func(*poisonCall, context.Context, *router.PoisonQueue) error
}

func poisonActions() []poisonAction {
	return []poisonAction{
		{"list", (*poisonCall).list}, {"show", (*poisonCall).show}, {"replay", (*poisonCall).replay}, {"discard", (*poisonCall).discard},
	}
}

func names(actions []poisonAction) string {
	all := make([]string, len(actions))
	for i, a := range actions {
		all[i] = a.name
	}
	return strings.Join(all, ", ")
}

// poison is the command of that name.
func (p program) poison(ctx context.Context, args []string) int {
	call := &poisonCall{program: p}
	if code, stop := call.read(args); stop {
		return code
	}
	cfg, code, stop := p.load(flags("poison"), call.from)
	if stop {
		return code
	}
	var err error
	if call.matches, err = match(call.expression); err != nil {
		return p.misused(err, "mqferry help poison")
	}
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	q, err := router.OpenPoisonQueue(opening, cfg, call.route, p.opts...)
	if err != nil {
		return p.failed("poison", err)
	}
	err = call.action.do(call, ctx, q)
	if err = errors.Join(err, q.Close()); err != nil {
		return p.failed("poison "+call.action.name, err)
	}
	return good
}

// failed says what went wrong.
func (p program) failed(what string, err error) int {
	fmt.Fprintf(p.err, "mqferry %s: %v\n", what, err)
	return failed
}

// read reads the words and flags, which may stand in any order.
func (c *poisonCall) read(args []string) (code int, stop bool) {
	set := flags("poison")
	set.Var(&c.from, "c", "")
	set.IntVar(&c.limit, "limit", 0, "")
	set.StringVar(&c.expression, "match", "", "")
	set.BoolVar(&c.all, "all", false, "")
	set.BoolVar(&c.json, "json", false, "")
	set.BoolVar(&c.dryRun, "dry-run", false, "")
	words, code, stop := c.words(set, args)
	if stop {
		return code, true
	}
	actions := poisonActions()
	at := -1
	if len(words) > 0 {
		at = slices.IndexFunc(actions, func(a poisonAction) bool { return a.name == words[0] })
	}
	var err error
	switch {
	case len(words) == 0:
		err = fmt.Errorf("poison: say what to do: one of %s", names(actions))
	case at < 0:
		err = fmt.Errorf("poison: %q is not one of %s", words[0], names(actions))
	case len(words) == 1:
		err = fmt.Errorf("poison %s: name a route", words[0])
	case len(words) > 2:
		err = fmt.Errorf("poison %s: %q is one word too many", words[0], words[2])
	case c.limit < 0:
		err = fmt.Errorf("poison: --limit %d is negative", c.limit)
	case words[0] == "discard" && c.expression == "" && c.limit == 0 && !c.all && !c.dryRun:
		err = errors.New("poison discard: say which messages, with --match or --limit, or that all are meant, with --all")
	}
	if err != nil {
		return c.misused(err, "mqferry help poison"), true
	}
	c.action, c.route = actions[at], words[1]
	return good, false
}

// words parses flags between and behind words, and gives the words.
func (c *poisonCall) words(set *flag.FlagSet, args []string) (words []string, code int, stop bool) {
	for {
		if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, c.help([]string{"poison"}), true
		} else if err != nil {
			return nil, c.misused(fmt.Errorf("poison: %w", err), "mqferry help poison"), true
		}
		if args = set.Args(); len(args) == 0 {
			return words, good, false
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// choose is true for what matches, as long as the limit is not reached.
func (c *poisonCall) choose(m router.ParkedMessage) bool {
	if c.limit > 0 && c.taken >= c.limit || !c.matches(m) {
		return false
	}
	c.taken++
	return true
}

func (c *poisonCall) each(ctx context.Context, q *router.PoisonQueue, f func(router.ParkedMessage) error) error {
	var wrong error
	err := q.Each(ctx, func(m router.ParkedMessage) bool {
		if c.choose(m) {
			wrong = f(m)
		}
		return wrong == nil && (c.limit == 0 || c.taken < c.limit)
	})
	return errors.Join(err, wrong)
}

func (c *poisonCall) list(ctx context.Context, q *router.PoisonQueue) error {
	if c.json {
		return c.each(ctx, q, func(m router.ParkedMessage) error { return writeJSON(c.out, m, false) })
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LAST FAILED\tATTEMPTS\tCLASS\tBYTES\tID\tREASON")
	err := c.each(ctx, q, func(m router.ParkedMessage) error {
		_, err := fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\n",
			m.Last.Local().Format(time.DateTime), m.Attempts, m.Class, m.Record.Size(), printable(m.Record.ID), printable(m.Reason))
		return err
	})
	if err = errors.Join(err, table.Flush()); err == nil {
		fmt.Fprintf(c.out, "%s in %s\n", count(c.taken, "message"), q.Place())
	}
	return err
}

func (c *poisonCall) show(ctx context.Context, q *router.PoisonQueue) error {
	return c.each(ctx, q, func(m router.ParkedMessage) error {
		if c.json {
			return writeJSON(c.out, m, true)
		}
		return writeText(c.out, m)
	})
}

func (c *poisonCall) discard(ctx context.Context, q *router.PoisonQueue) error {
	if c.dryRun {
		return c.would(ctx, q, "discarded")
	}
	n, err := q.Discard(ctx, c.choose)
	c.report(map[string]any{"discarded": n}, "%s discarded from %s", count(n, "message"), q.Place())
	return err
}

func (c *poisonCall) replay(ctx context.Context, q *router.PoisonQueue) error {
	if c.dryRun {
		return c.would(ctx, q, "replayed")
	}
	bar := c.progress(ctx, q)
	done, err := q.Replay(ctx, c.choose, bar.show)
	bar.end()
	c.report(map[string]any{"delivered": done.Delivered, "failed": done.Failed},
		"%s delivered to %s, %d failed and left in %s", count(done.Delivered, "message"), q.Destination(), done.Failed, q.Place())
	if err == nil && done.Failed > 0 {
		err = fmt.Errorf("%s failed again, the first: %w", count(done.Failed, "message"), done.Err)
	}
	return err
}

// would says what a call without --dry-run would do.
func (c *poisonCall) would(ctx context.Context, q *router.PoisonQueue, done string) error {
	err := c.each(ctx, q, func(router.ParkedMessage) error { return nil })
	if err == nil {
		c.report(map[string]any{"would_be_" + done: c.taken}, "%s in %s would be %s", count(c.taken, "message"), q.Place(), done)
	}
	return err
}

// bar shows on a terminal how far a replay is. How much there is to do is counted beforehand.
type bar struct {
	out   io.Writer // Nil shows nothing.
	total int
}

const barWidth = 30

func (c *poisonCall) progress(ctx context.Context, q *router.PoisonQueue) bar {
	if !c.errTerminal || c.json {
		return bar{}
	}
	b := bar{out: c.err}
	counting := *c
	if err := counting.each(ctx, q, func(router.ParkedMessage) error { return nil }); err != nil {
		return bar{} // The replay itself will say so.
	}
	b.total = counting.taken
	return b
}

func (b bar) show(r router.Replayed) {
	if b.out == nil || b.total == 0 {
		return
	}
	done := min(r.Delivered+r.Failed, b.total)
	full := done * barWidth / b.total
	fmt.Fprintf(b.out, "\r[%s%s] %d of %d, %d failed ", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), done, b.total, r.Failed)
}

func (b bar) end() {
	if b.out != nil && b.total > 0 {
		fmt.Fprintln(b.out)
	}
}
