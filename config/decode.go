package config

import (
	"encoding"
	"errors"
	"reflect"
	"strings"
	"time"
)

// decoder reads nodes into Go values and collects every mistake.
type decoder struct {
	errs []error
	bad  []string // the places (as spot writes them) that have a mistake already
}

// decode reads the node into what the pointer points at, and validates it.
func (d *decoder) decode(n *node, into any) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic("config: Decode takes a pointer to what it decodes into")
	}
	d.value(n, v.Elem())
	d.validate(n, v.Elem())
}

// fail reports the node, unless that has been done already.
func (d *decoder) fail(n *node, format string, args ...any) {
	d.bad = append(d.bad, spot(n))
	if !n.broken {
		d.errs = append(d.errs, n.errorf(format, args...))
	}
}

func (d *decoder) value(n *node, v reflect.Value) {
	if n.broken {
		d.bad = append(d.bad, spot(n))
		return
	}
	if raw, ok := v.Addr().Interface().(*Raw); ok {
		*raw = Raw{n}
		return
	}
	if n.kind == null {
		d.nothing(n, v)
		return
	}
	if path, ok := v.Addr().Interface().(*Path); ok && n.kind == scalar {
		*path = resolved(n.document.name, n.text)
		return
	}
	if text, ok := asText(v); ok {
		d.text(n, text)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.pointer(n, v)
	case reflect.Struct:
		d.fields(n, v)
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Map:
		d.mapping(n, v)
	case reflect.Interface:
		d.anything(n, v)
	default:
		d.scalar(n, v)
	}
}

// nothing is for a key without a value. That is the same as no key where the value would have had keys or items of its own.
func (d *decoder) nothing(n *node, v reflect.Value) {
	_, text := asText(v)
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return
	case reflect.Struct:
		if !text {
			return
		}
	}
	d.fail(n, "has no value; give it one or leave the key out")
}

// asText returns how to read a text into v, if v is a type that reads itself from a text.
func asText(v reflect.Value) (encoding.TextUnmarshaler, bool) {
	if v.Kind() == reflect.Pointer || !v.CanAddr() {
		return nil, false
	}
	if duration, ok := v.Addr().Interface().(*time.Duration); ok {
		return (*Duration)(duration), true
	}
	text, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return text, ok
}

func (d *decoder) text(n *node, into encoding.TextUnmarshaler) {
	if n.kind != scalar {
		d.fail(n, "is %s, not a single value", n.what())
		return
	}
	err := into.UnmarshalText([]byte(n.text))
	var ours *textError
	_, isURL := into.(*URL)
	switch {
	case err == nil:
	case errors.As(err, &ours):
		d.fail(n, "%s %s", n.shown(), ours.wrong)
	case n.replaced && !isURL: // A URL never quotes itself, and what is written of it may be a password.
		// What others say about a value may quote a piece of it, which nothing can take out again.
		d.fail(n, "%s has a value that is not accepted here", n.shown())
	default:
		d.fail(n, "%w", err)
	}
}

func (d *decoder) pointer(n *node, v reflect.Value) {
	// What the default points at may be shared: it is not written to.
	target := reflect.New(v.Type().Elem())
	if !v.IsNil() {
		target.Elem().Set(v.Elem())
	}
	d.value(n, target.Elem())
	v.Set(target)
}

func (d *decoder) fields(n *node, v reflect.Value) {
	if n.kind != mapping {
		d.fail(n, "is %s, not a mapping", n.what())
		return
	}
	fields := fieldsOf(v.Type())
	rest := []entry{}
	for _, e := range n.entries {
		if f, ok := fields.named(e.name); ok {
			d.value(e.node, v.FieldByIndex(f.index))
			continue
		}
		rest = append(rest, e)
	}
	if fields.rest != nil {
		v.FieldByIndex(fields.rest).Set(reflect.ValueOf(Raw{n.with(rest)}))
		return
	}
	for _, e := range rest {
		d.unknown(n, e, fields.names())
	}
}

// unknown reports a key that nothing has.
func (d *decoder) unknown(n *node, e entry, names []string) {
	d.bad = append(d.bad, spot(e.node))
	if near := nearest(e.name, names); near != "" {
		d.bad = append(d.bad, spot(n.place(near)))
	}
	if name, _, found := strings.Cut(e.name, ":"); found { // What follows was meant as the value, and may be a secret.
		d.errs = append(d.errs, n.errorAt(e.line, e.column, `unknown key %s: write a space after ":"`, quoted(name+":…")))
		return
	}
	d.errs = append(d.errs, n.errorAt(e.line, e.column, "unknown key %s%s", quoted(e.name), instead(e.name, names)))
}

func (d *decoder) slice(n *node, v reflect.Value) {
	items := n.items
	if n.kind == scalar && isScalar(v.Type().Elem()) {
		items = []*node{n}
	} else if n.kind != list {
		d.fail(n, "is %s, not a list", n.what())
		return
	}
	values := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.value(item, values.Index(i))
	}
	v.Set(values)
}

// isScalar tells whether a type is read from a single value.
func isScalar(t reflect.Type) bool {
	if _, text := asText(reflect.New(t).Elem()); text {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map, reflect.Interface:
		return false
	}
	return true
}

func (d *decoder) mapping(n *node, v reflect.Value) {
	if n.kind != mapping {
		d.fail(n, "is %s, not a mapping", n.what())
		return
	}
	if v.Type().Key().Kind() != reflect.String {
		panic("config: a map must have string keys: " + v.Type().String())
	}
	values := reflect.MakeMapWithSize(v.Type(), v.Len()+len(n.entries))
	for old := v.MapRange(); old.Next(); {
		values.SetMapIndex(old.Key(), old.Value())
	}
	for _, e := range n.entries {
		key := reflect.ValueOf(e.name).Convert(v.Type().Key())
		value := reflect.New(v.Type().Elem()).Elem()
		if old := values.MapIndex(key); old.IsValid() {
			value.Set(old)
		}
		d.value(e.node, value)
		values.SetMapIndex(key, value)
	}
	v.Set(values)
}

func (d *decoder) anything(n *node, v reflect.Value) {
	if v.NumMethod() > 0 {
		panic("config: cannot decode into the interface " + v.Type().String())
	}
	if value := n.plain(); value != nil {
		v.Set(reflect.ValueOf(value))
	}
}
