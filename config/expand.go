package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mostFromFile bounds what ${file:…} reads: it is for passwords and certificates.
const mostFromFile = 1 << 20

// expansion is a scalar with its ${…} replaced.
type expansion struct {
	text     string
	replaced bool     // whether there was a ${…}
	hidden   []hidden // what came from outside of the file
	errs     []error
}

// expander replaces ${…} in scalars.
type expander struct {
	lookup func(string) (string, bool)
	dir    string // what the path of ${file:…} is relative to
}

// expand never puts a value into an error.
func (x expander) expand(text string) expansion {
	var e expansion
	var out strings.Builder
	written := text
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			text = after[1:]
		case strings.HasPrefix(after, "{"):
			inner, rest, closed := strings.Cut(after[1:], "}")
			if !closed {
				e.errs = append(e.errs, errors.New(`"${" has no "}"; write "$${" for a literal "${"`))
				return e
			}
			out.WriteString(x.value(inner, &e))
			text = rest
		default:
			out.WriteByte('$')
			text = after
		}
	}
	e.text = out.String()
	if len(e.hidden) > 0 {
		e.hidden = append(e.hidden, hidden{e.text, written})
	}
	return e
}

// value returns what one ${…} stands for.
func (x expander) value(inner string, e *expansion) string {
	e.replaced = true
	expression := "${" + inner + "}"
	value, outside, err := x.resolve(inner)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s %w", expression, err))
		return ""
	}
	if outside {
		e.hidden = append(e.hidden, hidden{value, expression})
	}
	return value
}

// resolve also tells whether the value came from outside of the configuration file.
func (x expander) resolve(inner string) (value string, outside bool, err error) {
	if strings.Contains(inner, "${") {
		return "", false, errors.New(`has another "${" in it; that is not supported`)
	}
	if path, ok := strings.CutPrefix(inner, "file:"); ok {
		value, err := x.file(path)
		return value, true, err
	}
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !isVariable(name) {
		return "", false, errors.New(`is not understood; write ${NAME}, ${NAME:-default} or ${file:path}, and "$${" for a literal "${"`)
	}
	value, set := x.lookup(name)
	switch {
	case set && (value != "" || !hasFallback):
		return value, true, nil
	case hasFallback:
		return fallback, false, nil
	}
	return "", false, fmt.Errorf("is not set in the environment; set it or write ${%s:-default}", name)
}

func (x expander) file(path string) (string, error) {
	if path == "" {
		return "", errors.New("names no file; write ${file:path}")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(x.dir, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, mostFromFile+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	if len(text) > mostFromFile {
		return "", fmt.Errorf("is larger than %v", Size(mostFromFile))
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		digit := '0' <= r && r <= '9'
		if !letter && (i == 0 || !digit) {
			return false
		}
	}
	return name != ""
}
