package config

import "fmt"

// Raw is a part of a configuration that its owner decodes later. It knows its file, line and path. The zero Raw stands for a part
// that is not there: it decodes to nothing, without an error. It may be used by several goroutines.
type Raw struct{ node *node }

// IsZero tells whether there is nothing to decode: no such part, or nothing in it.
func (r Raw) IsZero() bool {
	if r.node == nil {
		return true
	}
	switch r.node.kind {
	case absent, null:
		return true
	case mapping:
		return len(r.node.entries) == 0
	case list:
		return len(r.node.items) == 0
	}
	return false
}

// Decode reads the part over what *into holds already, so that what the file does not say keeps its default. Struct fields go by
// their yaml tags, with ",inline" for a struct whose fields stand at the same level or for a Raw that takes the keys no field takes. Every key
// that no field has is a mistake. Afterwards Validate() error is called on everything in *into that has it, inner values first; what it says by
// Invalid is placed at that field. Decode returns all mistakes as Errors, each with its place, or nil.
// It panics when into is not a pointer, or is one to what no file can hold.
func (r Raw) Decode(into any) error {
	if r.node == nil {
		return nil
	}
	var d decoder
	d.decode(r.node, into)
	return Join(d.errs...)
}

// At returns the part below a key, or r itself when it has no such key.
func (r Raw) At(key string) Raw {
	if r.node == nil {
		return r
	}
	if child := r.node.child(key); child != nil {
		return Raw{child}
	}
	return r
}

// Child returns the part below a key; false when r has no such key.
func (r Raw) Child(key string) (Raw, bool) {
	if r.node == nil {
		return Raw{}, false
	}
	child := r.node.child(key)
	return Raw{child}, child != nil
}

// Text returns a single value as it was written, after ${…} was replaced; false when it is something else.
func (r Raw) Text() (string, bool) {
	if r.node == nil || r.node.kind != scalar {
		return "", false
	}
	return r.node.text, true
}

// Items returns the items of a list, none for an empty part; anything else is an error.
func (r Raw) Items() ([]Raw, error) {
	switch {
	case r.node == nil || r.node.kind == null || r.node.kind == absent || r.node.broken:
		return nil, nil
	case r.node.kind != list:
		return nil, r.node.errorf("is %s, not a list", r.node.what())
	}
	items := make([]Raw, len(r.node.items))
	for i, item := range r.node.items {
		items[i] = Raw{item}
	}
	return items, nil
}

// Named reads "name" or {name: options}: something with a name and perhaps options.
func (r Raw) Named() (name string, options Raw, err error) {
	switch {
	case r.node == nil:
		return "", r, nil
	case r.node.kind == scalar:
		return r.node.text, Raw{r.node.with(nil)}, nil
	case r.node.kind == mapping && len(r.node.entries) == 1:
		e := r.node.entries[0]
		return e.name, Raw{e.node}, nil
	}
	return "", r, r.node.errorf(`is %s; write "name" or {name: {option: value}}`, r.node.what())
}

// Errorf returns an error at the place of the part: "mqferry.yml:12: routes[2].to: …". Values that came out of ${…} are shown as they
// are written in the file. A zero Raw adds no place.
func (r Raw) Errorf(format string, args ...any) error {
	if r.node == nil {
		return fmt.Errorf(format, args...)
	}
	return r.node.errorf(format, args...)
}

// Locate gives what a check said about the part its place: that of the field where it was made by Invalid. Nil stays nil.
func (r Raw) Locate(err error) error {
	if r.node == nil || err == nil {
		return err
	}
	var d decoder
	d.refused(r.node, err)
	return Join(d.errs...)
}

// Path returns the way to the part from the top of its file, for example "routes[2].to"; "" for a zero Raw.
func (r Raw) Path() string {
	if r.node == nil {
		return ""
	}
	return r.node.path()
}

// Line returns the line of its file, counted from 1; 0 for a zero Raw.
func (r Raw) Line() int {
	if r.node == nil {
		return 0
	}
	return r.node.line
}

// File returns the name of its file; "" for a zero Raw.
func (r Raw) File() string {
	if r.node == nil {
		return ""
	}
	return r.node.document.name
}

// String returns the place of the part, never what is in it.
func (r Raw) String() string {
	if r.node == nil {
		return ""
	}
	return r.node.where() + ": " + r.node.path()
}
