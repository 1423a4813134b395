package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Option changes how a configuration is read.
type Option func(*loader)

// WithBrokers names the brokers that there are. Any other is then a mistake; without this option any name is accepted.
func WithBrokers(names ...string) Option {
	return func(l *loader) { l.brokers = names }
}

// WithRouteKeys names the further keys that a route, and defaults, may have: Route.Options has them. Any other is a mistake.
func WithRouteKeys(names ...string) Option {
	return func(l *loader) { l.routeKeys = names }
}

// WithLookup gives the environment for ${…}; it is os.LookupEnv by default.
func WithLookup(env func(name string) (value string, set bool)) Option {
	return func(l *loader) { l.lookup = env }
}

// WithCheck adds a check of what only others can check, the options of the brokers above all, so that its mistakes are reported
// together with those of the rest. It is called once, with what could be read, also when there were mistakes; a route is
// left out where it is not clear what it connects. The error is best made of Raw.Decode and Raw.Errorf, joined.
func WithCheck(check func(*Config) error) Option {
	return func(l *loader) { l.checks = append(l.checks, check) }
}

// loader reads files and keeps what is wrong with them.
type loader struct {
	lookup  func(string) (string, bool)
	brokers []string
	checks  []func(*Config) error
	// Keys of a route that others decode.
	routeKeys []string

	veil    veil
	tops    []*node
	sources []string
	errs    []error
	missing bool // whether a file could not be used at all
}

func newLoader(options []Option) *loader {
	l := &loader{lookup: os.LookupEnv}
	for _, option := range options {
		option(l)
	}
	return l
}

// Load reads a configuration from files and folders; of a folder, all *.yml and *.yaml in it, sorted, without those that begin with
// a dot. What is defined in several files is put together; a name that is there twice is a mistake. The error is Errors with every mistake there is.
func Load(paths []string, options ...Option) (*Config, error) {
	l := newLoader(options)
	for _, name := range l.files(paths) {
		text, err := os.ReadFile(name)
		if err != nil {
			l.unusable(unreadable(name, err))
			continue
		}
		l.add(name, text)
	}
	return l.config()
}

// Parse reads a configuration from one document in memory. The name stands for the file in errors, and ${file:…} is relative to its folder.
func Parse(name string, text []byte, options ...Option) (*Config, error) {
	l := newLoader(options)
	l.add(name, text)
	return l.config()
}

// ParseRaw reads one document that is a mapping and not a whole configuration, for example the options of a broker in a test. Of the
// options only WithLookup has an effect. The error is Errors.
func ParseRaw(name string, text []byte, options ...Option) (Raw, error) {
	l := newLoader(options)
	l.add(name, text)
	if err := Join(l.errs...); err != nil {
		return Raw{}, err
	}
	return Raw{l.tops[0]}, nil
}

func (l *loader) add(name string, text []byte) {
	l.sources = append(l.sources, name)
	top, errs := read(name, text, &l.veil, l.lookup)
	if top == nil {
		l.unusable(errs...)
		return
	}
	l.errs = append(l.errs, errs...)
	l.tops = append(l.tops, top)
}

func (l *loader) unusable(errs ...error) {
	l.missing = true
	l.errs = append(l.errs, errs...)
}

// files returns the files that the paths name, each of them once.
func (l *loader) files(paths []string) []string {
	if len(paths) == 0 {
		l.unusable(errors.New("no configuration file is given; name a file, or a folder with *.yml files"))
	}
	var names []string
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			l.unusable(unreadable(path, err))
		case info.IsDir():
			names = append(names, l.folder(path)...)
		default:
			names = append(names, path)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

func (l *loader) folder(path string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		l.unusable(unreadable(path, err))
		return nil
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		ours := filepath.Ext(name) == ".yml" || filepath.Ext(name) == ".yaml"
		if ours && !entry.IsDir() && !strings.HasPrefix(name, ".") {
			names = append(names, filepath.Join(path, name))
		}
	}
	if len(names) == 0 {
		l.unusable(&problem{file: path, text: "is a folder without *.yml or *.yaml files"})
	}
	return names
}

// unreadable leaves out the name that the error repeats.
func unreadable(name string, err error) error {
	reason := err
	var at *fs.PathError
	if errors.As(err, &at) {
		reason = at.Err
	}
	return &problem{file: name, text: "cannot be read: " + reason.Error(), cause: err}
}
