package router_test

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/router"
)

func compiled(t *testing.T, opts ...router.Option) *jsonschema.Schema {
	t.Helper()
	text, err := router.Schema(opts...)
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mqferry.json", document))
	s, err := c.Compile("mqferry.json")
	require.NoError(t, err)
	return s
}

func document(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal(text, &v))
	asJSON, err := json.Marshal(v)
	require.NoError(t, err)
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	require.NoError(t, err)
	return read
}

func TestSchemaAcceptsWhatTheLoaderAccepts(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("../config/examples/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, s.Validate(document(t, text)), file)
		_, err = router.Load([]string{file})
		require.NoError(t, err)
	}
}

func TestSchemaRefusesWhatTheLoaderRefuses(t *testing.T) {
	s := compiled(t)
	const good = `
datacenters: {a: {kafka: {brokers: "127.0.0.1:9092"}}, b: {redis: {address: "127.0.0.1:6379"}}}
routes: [{name: one, from: a/x, to: {datacenter: b, topic: y, max_length: 100}, window: "${WINDOW}"}]
`
	require.NoError(t, s.Validate(document(t, []byte(good))))
	for from, to := range map[string]string{
		"max_length: 100":             "max_lenght: 100",
		"brokers:":                    "brokerz:",
		"kafka: {":                    "kafak: {",
		"name: one,":                  "",
		"from: a/x":                   "from: a",
		"max_length: 100}":            "max_length: 100, fetch_max_wait: 1s}", // Of a Kafka source.
		`window: "${WINDOW}"`:         "window: many",
		"datacenter: b":               "datacentre: b",
		`{address: "127.0.0.1:6379"}`: `{address: "127.0.0.1:6379"}, kafka: {brokers: "x:1"}`,
	} {
		bad := strings.Replace(good, from, to, 1)
		require.NotEqual(t, good, bad)
		require.Error(t, s.Validate(document(t, []byte(bad))), bad)
		_, err := router.Parse("test.yml", []byte(strings.Replace(bad, "${WINDOW}", "5", 1)))
		require.Error(t, err, bad)
	}
}

func TestSchemaTellsDefaultsAndWhatAnOptionIs(t *testing.T) {
	text, err := router.Schema()
	require.NoError(t, err)
	var s struct {
		Properties struct {
			Routes struct {
				Items struct {
					Properties map[string]struct {
						Description string `json:"description"`
						Default     any    `json:"default"`
					} `json:"properties"`
				} `json:"items"`
			} `json:"routes"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(text, &s))
	keys := s.Properties.Routes.Items.Properties
	require.Equal(t, float64(8192), keys["window"].Default)
	require.Equal(t, "64MiB", keys["window_bytes"].Default)
	for name, key := range keys {
		require.NotEmpty(t, key.Description, name)
	}
}

// own is a stranger's broker, with an option.
type own struct {
	// Colour is what it is painted with.
	Colour string `yaml:"colour"`
}

func ownBroker() handlers.Broker {
	return handlers.NewBroker(func() (own, none, none) { return own{}, none{}, none{} },
		func(context.Context, own, handlers.Settings) (handlers.Connection[none, none], error) {
			return &broken{}, nil
		})
}

func TestSchemaHasAStrangersBroker(t *testing.T) {
	s := compiled(t, router.WithBroker("own", ownBroker()))
	require.NoError(t, s.Validate(document(t, []byte("datacenters: {a: {own: {colour: red}}}"))))
	require.Error(t, s.Validate(document(t, []byte("datacenters: {a: {own: {color: red}}}"))))
}

func TestSchemaHasMiddlewareOfOnesOwn(t *testing.T) {
	var closed atomic.Int32
	s := compiled(t, stamping(&closed))
	route := "routes: [{name: one, from: a/x, to: a/y, middleware: [stamp, {stamp: {mark: A}}]}]"
	require.NoError(t, s.Validate(document(t, []byte(route))))
	require.Error(t, s.Validate(document(t, []byte(strings.Replace(route, "mark", "marks", 1)))))
	require.Error(t, s.Validate(document(t, []byte(strings.Replace(route, "[stamp,", "[stmp,", 1)))))
}

// TestSchemaCommentsAreThoseOfTheSource also writes them, with MQFERRY_UPDATE=1.
func TestSchemaCommentsAreThoseOfTheSource(t *testing.T) {
	t.Chdir("..")
	docs := sourceComments(t, "config", "handlers", "middleware", "router")
	used := map[string]string{}
	for _, key := range router.CommentKeys() {
		if comment := docs[key]; comment != "" {
			used[key] = comment
		}
	}
	text, err := json.MarshalIndent(used, "", "  ")
	require.NoError(t, err)
	text = append(text, '\n')
	const file = "router/comments.json"
	if os.Getenv("MQFERRY_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	if !bytes.Equal(text, have) { // Not require.Equal, which would print all of both.
		t.Fatalf("%s is not up to date; run: MQFERRY_UPDATE=1 go test ./router -run SchemaComments", file)
	}
}

// sourceComments reads the doc comments of all struct types, and of their fields, in Go files below folders.
func sourceComments(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if g, ok := n.(*ast.GenDecl); ok && len(g.Specs) == 1 {
					structComments(docs, "github.com/mqferry/mqferry/"+filepath.ToSlash(filepath.Dir(path)), g)
				}
				return true
			})
			return nil
		}))
	}
	return docs
}

func structComments(docs map[string]string, in string, g *ast.GenDecl) {
	spec, ok := g.Specs[0].(*ast.TypeSpec)
	if !ok {
		return
	}
	of, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	docs[in+"."+spec.Name.Name] = oneLine(g.Doc)
	for _, f := range of.Fields.List {
		for _, name := range f.Names {
			docs[in+"."+spec.Name.Name+"."+name.Name] = oneLine(f.Doc)
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
