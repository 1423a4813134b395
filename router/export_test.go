package router

import "reflect"

// CommentKeys lists the comments that the schema has a place for.
func CommentKeys() []string {
	var keys []string
	o, err := newOptions(nil)
	if err != nil {
		panic(err)
	}
	d := describer{seen: func(t reflect.Type, field string) { keys = append(keys, commentKey(t, field)) }}
	d.file(o)
	return keys
}
