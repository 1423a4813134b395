package config

import (
	"reflect"
	"slices"
	"strings"
)

// structFields is what can be read into a struct, in the order in which the struct declares it.
type structFields struct {
	list []structField
	rest []int // the Raw that takes the other keys
}

type structField struct {
	name  string
	index []int
}

func (s structFields) named(name string) (structField, bool) {
	i := slices.IndexFunc(s.list, func(f structField) bool { return f.name == name })
	if i < 0 {
		return structField{}, false
	}
	return s.list[i], true
}

func (s structFields) names() []string {
	names := make([]string, len(s.list))
	for i, f := range s.list {
		names[i] = f.name
	}
	return names
}

// fieldsOf returns what can be read into a struct, the fields of inline structs included.
func fieldsOf(t reflect.Type) structFields {
	var all structFields
	for _, f := range directFieldsOf(t) {
		inner := t.FieldByIndex(f.index).Type
		switch {
		case f.name != "":
			all.list = append(all.list, f)
		case inner == reflect.TypeFor[Raw]():
			all.rest = f.index
		default:
			for _, g := range fieldsOf(inner).list {
				all.list = append(all.list, structField{g.name, slices.Concat(f.index, g.index)})
			}
		}
	}
	return all
}

// directFieldsOf returns the fields of a struct with their names in the file; those that are inline have none.
func directFieldsOf(t reflect.Type) []structField {
	var all []structField
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case slices.Contains(strings.Split(options, ","), "inline"):
			name = ""
		case name == "":
			name = strings.ToLower(f.Name)
		}
		all = append(all, structField{name, f.Index})
	}
	return all
}
