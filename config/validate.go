package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

// validate calls Validate on v and on everything in it, inner values first.
func (d *decoder) validate(n *node, v reflect.Value) {
	if v.Type() == reflect.TypeFor[Raw]() {
		return
	}
	if _, text := asText(v); !text {
		d.inner(n, v)
	}
	if validator, ok := v.Addr().Interface().(interface{ Validate() error }); ok {
		d.refused(n, validator.Validate())
	}
}

func (d *decoder) inner(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			d.validate(n, v.Elem())
		}
	case reflect.Struct:
		for _, f := range directFieldsOf(v.Type()) {
			at := n
			if f.name != "" {
				at = n.place(f.name)
			}
			d.validate(at, v.FieldByIndex(f.index))
		}
	case reflect.Slice:
		for i := range v.Len() {
			at := n
			if i < len(n.items) {
				at = n.items[i]
			}
			d.validate(at, v.Index(i))
		}
	case reflect.Map:
		for pair := v.MapRange(); pair.Next(); {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(pair.Value())
			d.validate(n.place(pair.Key().String()), value)
		}
	}
}

// refused gives what a Validate said its places.
func (d *decoder) refused(n *node, err error) {
	if err == nil {
		return
	}
	if all := flat(err); len(all) > 1 {
		for _, one := range all {
			d.refused(n, one)
		}
		return
	}
	var field *invalid
	if !errors.As(err, &field) {
		d.misfit(n, err)
		return
	}
	for key := range strings.SplitSeq(field.field, ".") {
		n = n.place(key)
	}
	d.misfit(n, field.cause)
}

// misfit reports a value that was read and is not right. Where reading it, or a part of it, was a mistake already, the value is
// a default, and there is nothing to say about that.
func (d *decoder) misfit(n *node, err error) {
	here := spot(n)
	if slices.ContainsFunc(d.bad, func(bad string) bool { return within(bad, here) || within(here, bad) }) {
		return
	}
	d.errs = append(d.errs, n.errorf("%w", err))
}

// spot is the path of a node with its file.
func spot(n *node) string { return n.document.name + ":" + n.path() }

// within tells whether one spot is the other or a part of it.
func within(part, whole string) bool {
	rest, ok := strings.CutPrefix(part, whole)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[' || strings.HasSuffix(whole, ":"))
}
