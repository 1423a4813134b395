package config

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of one file. Aliases count each time they are used.
const (
	mostNodes = 100_000
	mostDepth = 100
)

// reader makes nodes of a file.
type reader struct {
	document *document
	expander expander
	errs     []error

	count    int
	within   map[*yaml.Node]bool // the anchors around the node being read
	expanded map[*yaml.Node]expansion
}

// read returns the top of a file, and its mistakes; the parts that they are in are broken nodes. The top is nil when the file
// as a whole cannot be used.
func read(name string, text []byte, v *veil, lookup func(string) (string, bool)) (*node, []error) {
	r := &reader{
		document: &document{name: name, veil: v},
		expander: expander{lookup: lookup, dir: filepath.Dir(name)},
		within:   map[*yaml.Node]bool{},
		expanded: map[*yaml.Node]expansion{},
	}
	document, err := r.parse(text)
	if err != nil {
		return nil, []error{err}
	}
	top := r.node(document.Content[0], nil, "", 0)
	switch {
	case top.kind == null:
		return nil, []error{r.empty()}
	case top.kind != mapping:
		return nil, append(r.errs, top.errorf("the file is %s, not a mapping", top.what()))
	}
	return top, r.errs
}

func (r *reader) parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) || err == nil && len(first.Content) == 0 {
		return nil, r.empty()
	} else if err != nil {
		return nil, r.syntax(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &problem{file: r.document.name, line: second.Line, text: `holds a second document after "---"; write it into a file of its own`}
	} else if !errors.Is(err, io.EOF) {
		return nil, r.syntax(err)
	}
	return &first, nil
}

func (r *reader) empty() error {
	return &problem{file: r.document.name, text: "is empty"}
}

// syntax gives YAML's own message the form of ours.
func (r *reader) syntax(err error) error {
	parts := regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`).FindStringSubmatch(err.Error())
	if parts == nil {
		return &problem{file: r.document.name, text: "is not YAML: " + err.Error(), cause: err}
	}
	if strings.HasPrefix(parts[2], "unknown anchor") { // Its name may be a password that was meant.
		parts[2] = "an anchor is not known; a value that begins with * needs quotes"
		err = nil
	}
	line, _ := strconv.Atoi(parts[1]) // Zero, that is no line, where there is none.
	p := &problem{file: r.document.name, line: line, text: "is not YAML: " + parts[2], cause: err}
	// The parser, unlike the scanner below it, counts lines from zero, and it names the one where the block began that has the mistake.
	if regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or)`).MatchString(parts[2]) {
		p.line = line + 1
		p.text += ", here or in the lines that follow"
	}
	return p
}

func (r *reader) node(y *yaml.Node, parent *node, step string, depth int) *node {
	n := &node{document: r.document, line: y.Line, column: y.Column, parent: parent, step: step, tag: y.ShortTag()}
	r.count++
	switch {
	case r.count > mostNodes:
		if r.count == mostNodes+1 {
			r.fail(n, "the file holds more than %d values (aliases count each time they are used)", mostNodes)
		}
		n.broken = true
		return n
	case depth > mostDepth:
		return r.fail(n, "is nested more than %d levels deep", mostDepth)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.alias(y, n, depth)
	case yaml.ScalarNode:
		return r.scalar(y, n)
	}
	if n.tag != "!!seq" && n.tag != "!!map" {
		return r.fail(n, "has a tag, which is not supported; a value that begins with ! needs quotes")
	}
	switch y.Kind {
	case yaml.SequenceNode:
		n.kind = list
		for i, item := range y.Content {
			n.items = append(n.items, r.node(item, n, "["+strconv.Itoa(i)+"]", depth+1))
		}
	case yaml.MappingNode:
		n.kind = mapping
		r.mapping(y, n, depth)
	}
	return n
}

// fail reports the node and marks it as broken.
func (r *reader) fail(n *node, format string, args ...any) *node {
	n.broken = true
	r.errs = append(r.errs, n.errorf(format, args...))
	return n
}

func (r *reader) alias(y *yaml.Node, n *node, depth int) *node {
	if r.within[y.Alias] {
		return r.fail(n, "the alias *%s stands within what it repeats", y.Value)
	}
	r.within[y.Alias] = true
	defer delete(r.within, y.Alias)
	return r.node(y.Alias, n.parent, n.step, depth+1)
}

func (r *reader) scalar(y *yaml.Node, n *node) *node {
	n.kind, n.text, n.written = scalar, y.Value, y.Value
	switch n.tag {
	case "!!null":
		n.kind = null
		return n
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
	default:
		return r.fail(n, "has a tag, which is not supported; a value that begins with ! needs quotes")
	}
	e, known := r.expanded[y]
	if !known {
		e = r.expander.expand(y.Value)
		r.expanded[y] = e
		for _, h := range e.hidden {
			r.document.veil.hide(h.value, h.shown)
		}
	}
	n.text, n.replaced = e.text, e.replaced
	for _, err := range e.errs {
		r.fail(n, "%w", err)
	}
	return n
}

func (r *reader) mapping(y *yaml.Node, n *node, depth int) {
	var merges []*yaml.Node
	seen := map[string]int{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			merges = append(merges, value)
			continue
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
			r.errs = append(r.errs, n.errorAt(key.Line, key.Column, "a key must be a name"))
			continue
		}
		if line, twice := seen[key.Value]; twice {
			r.errs = append(r.errs, n.errorAt(key.Line, key.Column, "key %s is there twice; first in line %d", quoted(key.Value), line))
			continue
		}
		seen[key.Value] = key.Line
		child := r.node(value, n, stepTo(key.Value), depth+1)
		if child.kind != scalar {
			// YAML has a block begin at its first line; people look for the key above it.
			child.line, child.column = key.Line, key.Column
		}
		n.entries = append(n.entries, entry{key.Value, key.Line, key.Column, child})
	}
	for _, value := range merges {
		r.merge(value, n, seen, depth)
	}
}

// merge adds what a merge key ("<<") brings and the mapping does not have itself.
func (r *reader) merge(y *yaml.Node, n *node, seen map[string]int, depth int) {
	merged := r.node(y, n, stepTo("<<"), depth+1)
	sources := []*node{merged}
	if merged.kind == list {
		sources = merged.items
	}
	for _, source := range sources {
		if source.broken {
			continue
		}
		if source.kind != mapping {
			r.fail(source, `is %s; "<<" takes a mapping or a list of mappings`, source.what())
			continue
		}
		for _, e := range source.entries {
			if _, own := seen[e.name]; own {
				continue
			}
			seen[e.name] = e.line
			e.node.parent = n
			n.entries = append(n.entries, e)
		}
	}
}
