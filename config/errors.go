package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Errors is all the mistakes of a configuration, in the order of files and lines, each of them once.
type Errors []error

// Error returns the mistakes, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes.
func (e Errors) Unwrap() []error { return e }

// Join makes one Errors of errors and joined errors: those with a position by file and line, then the rest, each of them once.
// It returns nil when there is none.
func Join(errs ...error) error {
	var all Errors
	for _, err := range errs {
		all = append(all, flat(err)...)
	}
	slices.SortStableFunc(all, byPosition)
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(err error) bool {
		again := seen[err.Error()]
		seen[err.Error()] = true
		return again
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

// flat returns what was joined, and leaves whole what has words of its own around its causes.
func flat(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // A wrapped join has words around it.
	if !ok || err.Error() != Errors(joined.Unwrap()).Error() {
		return []error{err}
	}
	var all []error
	for _, inner := range joined.Unwrap() {
		all = append(all, flat(inner)...)
	}
	return all
}

func byPosition(a, b error) int {
	p, q := position(a), position(b)
	return cmp.Or(cmp.Compare(p.rank, q.rank), cmp.Compare(p.file, q.file), cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

func position(err error) problem {
	var p *problem
	if errors.As(err, &p) {
		return *p
	}
	return problem{rank: 1}
}

// problem is one mistake at its place.
type problem struct {
	rank         int // 1 for what has no place
	file         string
	line, column int
	path         string
	text         string
	cause        error
}

func (p *problem) Error() string {
	place := p.file
	if p.line > 0 {
		place += ":" + strconv.Itoa(p.line)
	}
	if p.path != "" {
		place += ": " + p.path
	}
	return place + ": " + p.text
}

func (p *problem) Unwrap() error { return p.cause }

// textError says what is wrong with a text; whoever knows the place, and whether the text may be shown, puts the text before it.
type textError struct{ text, wrong string }

func (e *textError) Error() string { return quoted(e.text) + " " + e.wrong }

// invalid is what a Validate method says about one field.
type invalid struct {
	field string
	cause error
}

func (i *invalid) Error() string { return i.field + ": " + i.cause.Error() }

func (i *invalid) Unwrap() error { return i.cause }

// Invalid returns the error of a Validate method for one field, which goes by its name in the file ("max_length"; "tls.ca" is the
// field ca of the field tls). Raw.Decode adds the place. Several are joined with errors.Join.
func Invalid(field, format string, args ...any) error {
	return &invalid{field: field, cause: fmt.Errorf(format, args...)}
}

// quoted shows the beginning of a text.
func quoted(s string) string {
	const most = 120
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
}
