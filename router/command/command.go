package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/router"
)

// What a command ends with.
const (
	good   = 0
	failed = 1
	wrong  = 2 // The configuration, or the way the command was called.
)

// Run does what args say, without the program's own name, and gives the code to exit with: 0 good, 1 failed while running, 2 wrong configuration
// or usage. It writes to standard output and standard error. When ctx ends, it stops cleanly. opts go to every router that it makes.
func Run(ctx context.Context, args []string, opts ...router.Option) int {
	p := program{out: os.Stdout, err: os.Stderr, opts: opts}
	p.outTerminal = term.IsTerminal(int(os.Stdout.Fd()))
	p.errTerminal = term.IsTerminal(int(os.Stderr.Fd()))
	return p.run(ctx, args)
}

// program is one call of the command line.
type program struct {
	out, err                 io.Writer
	outTerminal, errTerminal bool
	opts                     []router.Option
}

// command is one word of the command line.
type command struct {
	name  string
	about string // What it does, in one line.
	help  string // How it is called, and examples.
	run   func(p program, ctx context.Context, args []string) int
}

// commands are the words of the command line, in the order of the help.
func commands() []command {
	return []command{
		{"run", "carry messages, as a configuration says, until stopped", runHelp, program.carry},
		{"validate", "check a configuration, and start nothing", validateHelp, program.validate},
		{"poison", "list, show, replay or discard what could not be delivered", poisonHelp, program.poison},
		{"demo", "see it work on this machine, with nothing installed", demoHelp, program.demo},
		{"version", "say which mqferry this is", versionHelp, program.version},
	}
}

func (p program) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.help(nil)
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return p.help(args[1:])
	case "-version", "--version":
		return p.version(ctx, args[1:])
	}
	c, err := find(args[0])
	if err != nil {
		return p.misused(err, "mqferry help")
	}
	return c.run(p, ctx, args[1:])
}

// flags makes the flags of a command; what is wrong with them is for parse to tell.
func flags(name string) *flag.FlagSet {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return set
}

// parse reads args into set. When it says stop, the command ends with code: help was asked for, or args are wrong.
func (p program) parse(set *flag.FlagSet, args []string) (code int, stop bool) {
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return p.help([]string{set.Name()}), true
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("%q is one word too many", set.Arg(0))
	}
	if err != nil {
		return p.misused(fmt.Errorf("%s: %w", set.Name(), err), "mqferry help "+set.Name()), true
	}
	return good, false
}

// misused says what is wrong with the command line, and where to read how it is right.
func (p program) misused(err error, see string) int {
	fmt.Fprintf(p.err, "mqferry %v\nSee %q.\n", err, see)
	return wrong
}

// mistaken prints every mistake of a configuration, one a line, and how many there are.
func (p program) mistaken(err error) int {
	mistakes := config.Errors{err}
	_ = errors.As(err, &mistakes)
	for _, m := range mistakes {
		fmt.Fprintln(p.err, m)
	}
	if len(mistakes) == 1 {
		fmt.Fprintln(p.err, "1 mistake")
	} else {
		fmt.Fprintf(p.err, "%d mistakes\n", len(mistakes))
	}
	return wrong
}

// paths is a flag that may be given several times.
type paths []string

// String gives the value as the flag package wants to see it.
func (p *paths) String() string { return fmt.Sprint([]string(*p)) }

// Set adds one.
func (p *paths) Set(path string) error {
	if path == "" {
		return errors.New("is empty; name a file or a folder")
	}
	*p = append(*p, path)
	return nil
}

// load reads the configuration that a command was given. When it says stop, the command ends with code.
func (p program) load(set *flag.FlagSet, from paths) (cfg *config.Config, code int, stop bool) {
	if len(from) == 0 {
		err := fmt.Errorf("%s: no configuration: name its file, or a folder of files, with -c", set.Name())
		return nil, p.misused(err, "mqferry help "+set.Name()), true
	}
	cfg, err := router.Load(from, p.opts...)
	if err != nil {
		return nil, p.mistaken(err), true
	}
	return cfg, good, false
}

// choose makes a flag that must be one of some words.
func choose(into *string, words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("must be one of %v", words)
		}
		*into = s
		return nil
	}
}
