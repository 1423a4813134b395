package router

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// comments are the doc comments of the config types' fields, by package, type and field. A test makes the file and checks that it is up to date.
//
//go:embed comments.json
var comments []byte

// Schema gives the JSON Schema (draft 2020-12) of the configuration file, assembled from the Go types that it is read into, those of brokers that opts
// add included. Editors use it to complete and check a file; what it cannot say, such as that a data center exists, Load checks.
func Schema(opts ...Option) ([]byte, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	d := describer{docs: map[string]string{}}
	if err := json.Unmarshal(comments, &d.docs); err != nil {
		return nil, fmt.Errorf("comments.json: %w", err)
	}
	text, err := json.MarshalIndent(d.file(o), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// describer makes schemas of Go types.
type describer struct {
	docs map[string]string
	seen func(t reflect.Type, field string) // May be nil.
}

func (d describer) file(o *options) *jsonschema.Schema {
	shape := config.ShapeOf()
	s := d.of(shape.File)
	s.Version, s.Title = jsonschema.Version, "mqferry configuration"
	s.Properties.Set("datacenters", &jsonschema.Schema{
		Description: "The data centers by their names, each with the one broker that it has.", Type: "object",
		AdditionalProperties: d.dataCenter(o.brokers),
	})
	route := d.of(shape.Route)
	route.Properties.Set("from", described(route, "from", d.end(shape.Source, o.brokers, source)))
	route.Properties.Set("to", described(route, "to", d.end(shape.Destination, o.brokers, destination)))
	route.Required = []string{"name", "from", "to"}
	s.Properties.Set("routes", &jsonschema.Schema{Description: "The routes.", Type: "array", Items: route})
	defaults := d.of(shape.Defaults)
	for _, s := range []*jsonschema.Schema{route, defaults} {
		d.policies(s, o)
	}
	defaults.Description = "What all routes share that do not say otherwise."
	s.Properties.Set("defaults", defaults)
	return s
}

// dataCenter is one of the brokers.
func (d describer) dataCenter(brokers map[string]handlers.Broker) *jsonschema.Schema {
	one := uint64(1)
	s := &jsonschema.Schema{
		Type: "object", AdditionalProperties: jsonschema.FalseSchema, MinProperties: &one, MaxProperties: &one,
		Properties: jsonschema.NewProperties(),
	}
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		c, _, _ := brokers[name].Defaults()
		s.Properties.Set(name, d.of(c))
	}
	return s
}

func source(_, s, _ any) any      { return s }
func destination(_, _, s any) any { return s }

// end is the short form, or the long one with the options of one of the brokers.
func (d describer) end(fixed any, brokers map[string]handlers.Broker, side func(dataCenter, source, destination any) any) *jsonschema.Schema {
	long := &jsonschema.Schema{}
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		s := d.of(fixed)
		s.Title, s.Required = name, []string{"datacenter"}
		options := d.of(side(brokers[name].Defaults()))
		for p := options.Properties.Oldest(); p != nil; p = p.Next() {
			s.Properties.Set(p.Key, p.Value)
		}
		long.AnyOf = append(long.AnyOf, s)
	}
	long.AnyOf = append(long.AnyOf, &jsonschema.Schema{Type: "string", Pattern: "^[^/]+/.+$"})
	return long
}

// policies adds the keys of a route that this package decodes.
func (d describer) policies(route *jsonschema.Schema, o *options) {
	s := d.of(defaultRouteOptions())
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		route.Properties.Set(p.Key, p.Value)
	}
	poison := d.end(poisonText{}, o.brokers, destination)
	for _, long := range poison.AnyOf {
		long.Required = nil
	}
	poison.AnyOf[len(poison.AnyOf)-1] = &jsonschema.Schema{Const: "off"} // Instead of the short form.
	route.Properties.Set("poison", described(s, "poison", poison))
	route.Properties.Set("throttle", described(s, "throttle", d.of(middleware.DefaultThrottle())))
	route.Properties.Set("deduplicate", described(s, "deduplicate", d.of(middleware.DefaultDeduplicate())))
	route.Properties.Set("middleware", described(s, "middleware", d.middleware(o.custom)))
}

// middleware is the list of the user's own: names, or names with options.
func (d describer) middleware(known map[string]middleware.Middleware) *jsonschema.Schema {
	item := &jsonschema.Schema{}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		options := jsonschema.NewProperties()
		options.Set(name, d.of(known[name].Defaults()))
		item.AnyOf = append(item.AnyOf, &jsonschema.Schema{Const: name}, &jsonschema.Schema{
			Type: "object", Properties: options, AdditionalProperties: jsonschema.FalseSchema, Required: []string{name},
		})
	}
	return &jsonschema.Schema{Type: "array", Items: item}
}

// described gives s the description that stood in its place.
func described(in *jsonschema.Schema, name string, s *jsonschema.Schema) *jsonschema.Schema {
	if old, ok := in.Properties.Get(name); ok {
		s.Description = old.Description
	}
	return s
}

// of describes the type of v, and takes its values for the defaults.
func (d describer) of(v any) *jsonschema.Schema {
	r := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml",
		Mapper: mapped, LookupComment: d.comment,
	}
	s := r.Reflect(v)
	s.Version = ""
	if s.Properties == nil {
		s.Properties = jsonschema.NewProperties()
	}
	s.Properties.Delete("") // An inline Raw.
	setDefaults(s, reflect.ValueOf(v))
	return s
}

func (d describer) comment(t reflect.Type, field string) string {
	if field == "" {
		return ""
	}
	if d.seen != nil {
		d.seen(t, field)
	}
	return d.docs[commentKey(t, field)]
}

func commentKey(t reflect.Type, field string) string {
	return t.PkgPath() + "." + t.Name() + "." + field
}

// variable is how a value may stand outside of the file.
const variable = `\$\{.+\}`

// mapped describes the types that read themselves from a text, and lets numbers and words come out of a ${…}.
func mapped(t reflect.Type) *jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	switch t {
	case reflect.TypeFor[config.Raw]():
		return &jsonschema.Schema{}
	case reflect.TypeFor[config.Duration](), reflect.TypeFor[middleware.TimeoutConfig]():
		text.Pattern, text.Examples = `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|`+variable, []any{"500ms", "20s", "1h30m"}
		return text
	case reflect.TypeFor[config.Size](), reflect.TypeFor[middleware.SizeLimitConfig]():
		text.Examples = []any{"64MiB", "200kB"}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text, {Type: "integer"}}}
	case reflect.TypeFor[config.Start]():
		text.Examples = []any{"earliest", "latest", "2026-01-31T08:00:00Z"}
		return text
	case reflect.TypeFor[config.URL](), reflect.TypeFor[record.Template](), reflect.TypeFor[config.Path]():
		return text
	}
	if words, ok := reflect.Zero(t).Interface().(interface{ Words() []string }); ok {
		for _, w := range words.Words() {
			text.Enum = append(text.Enum, w)
		}
		return text
	}
	return plain(t)
}

func plain(t reflect.Type) *jsonschema.Schema {
	switch t.Kind() {
	case reflect.Bool:
		return orVariable("boolean")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return orVariable("integer")
	case reflect.Float32, reflect.Float64:
		return orVariable("number")
	case reflect.Slice: // One value is a list of one.
		if item := mapped(t.Elem()); item != nil {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{item, {Type: "array", Items: item}}}
		}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

func orVariable(kind string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: kind}, {Type: "string", Pattern: variable}}}
}

// setDefaults notes in the properties of s what the fields of v hold, if that can be written on one line.
func setDefaults(s *jsonschema.Schema, v reflect.Value) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for f, value := range v.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			setDefaults(s, value)
			continue
		}
		property, ok := s.Properties.Get(name)
		if !ok || value.IsZero() {
			continue
		}
		switch value.Kind() {
		case reflect.Struct, reflect.Pointer, reflect.Map, reflect.Slice:
			continue
		}
		switch x := value.Interface().(type) {
		case fmt.Stringer:
			property.Default = x.String()
		default:
			property.Default = x
		}
	}
}
