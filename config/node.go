package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

type kind int

const (
	absent kind = iota // a place where something could have stood
	null
	scalar
	list
	mapping
)

// document is one file.
type document struct {
	name string
	veil *veil
}

// node is a value of a file with its place. Aliases and merge keys are resolved and ${…} is replaced. It is not changed after
// the file was read.
type node struct {
	kind         kind
	document     *document
	line, column int
	parent       *node
	step         string // what the path adds to that of the parent: ".to" or "[2]"

	text     string // of a scalar, replaced
	written  string // of a scalar, as it stands in the file
	replaced bool   // whether the scalar had a ${…}
	tag      string
	broken   bool // reported already, nothing more to say about it

	entries []entry // of a mapping
	items   []*node // of a list
}

type entry struct {
	name         string
	line, column int
	node         *node
}

// path returns the way to the node from the top of its file: "routes[2].to".
func (n *node) path() string {
	var steps []string
	for ; n != nil; n = n.parent {
		steps = append(steps, n.step)
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}

// stepTo returns the step to a key of a mapping.
func stepTo(key string) string {
	for _, r := range key {
		if !isNameRune(r) || r == '.' {
			return "." + quoted(key)
		}
	}
	return "." + key
}

// child returns the value of a key, or nil.
func (n *node) child(key string) *node {
	for _, e := range n.entries {
		if e.name == key {
			return e.node
		}
	}
	return nil
}

// place returns the value of a key, or, where there is none, the place where it is missing.
func (n *node) place(key string) *node {
	if c := n.child(key); c != nil {
		return c
	}
	return &node{document: n.document, line: n.line, column: n.column, parent: n, step: stepTo(key)}
}

// with returns the node with other entries, at the same place.
func (n *node) with(entries []entry) *node {
	c := *n
	c.kind, c.entries, c.items = mapping, entries, nil
	return &c
}

// what says what the node is, for "is …, not …".
func (n *node) what() string {
	return [...]string{"missing", "empty", "a single value", "a list", "a mapping"}[n.kind]
}

// shown is the scalar as a message may show it.
func (n *node) shown() string {
	if n.replaced {
		return quoted(n.written)
	}
	return quoted(n.text)
}

// shownPart shows a part of the scalar, or all of it as it is written when the part came out of a ${…}.
func (n *node) shownPart(part string) string {
	if n.replaced && !strings.Contains(n.written, part) {
		return quoted(n.written)
	}
	return quoted(part)
}

// errorf returns an error at the place of the node.
func (n *node) errorf(format string, args ...any) error {
	return n.errorAt(n.line, n.column, format, args...)
}

func (n *node) errorAt(line, column int, format string, args ...any) error {
	cause := fmt.Errorf(format, args...)
	return &problem{
		file: n.document.name, line: line, column: column, path: n.path(),
		text: n.document.veil.over(cause.Error()), cause: cause,
	}
}

// where says where the node is, for messages about another one.
func (n *node) where() string { return n.document.name + ":" + strconv.Itoa(n.line) }

// plain returns the value as YAML's own types: nil, bool, int, float64, string, []any, map[string]any.
func (n *node) plain() any {
	switch n.kind {
	case scalar:
		return n.plainScalar()
	case list:
		values := make([]any, len(n.items))
		for i, item := range n.items {
			values[i] = item.plain()
		}
		return values
	case mapping:
		values := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			values[e.name] = e.node.plain()
		}
		return values
	}
	return nil
}

func (n *node) plainScalar() any {
	switch n.tag {
	case "!!bool", "!!int", "!!float":
		var value any
		if err := (&yaml.Node{Kind: yaml.ScalarNode, Tag: n.tag, Value: n.text}).Decode(&value); err == nil {
			return value
		}
	}
	return n.text
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}

// isName tells whether s can be the name of a data center or a route.
func isName(s string) bool {
	return s != "" && len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool { return !isNameRune(r) })
}
