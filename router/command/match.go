package command

import (
	"fmt"

	"github.com/google/cel-go/cel"

	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
)

// match compiles an expression of the Common Expression Language about a parked message; an empty one is true for all. A message that lacks what the expression asks for, such as a
// header, does not match.
func match(expression string) (func(router.ParkedMessage) bool, error) {
	if expression == "" {
		return func(router.ParkedMessage) bool { return true }, nil
	}
	env, err := cel.NewEnv(
		cel.Variable("id", cel.StringType), cel.Variable("key", cel.StringType), cel.Variable("payload", cel.StringType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)), cel.Variable("size", cel.IntType),
		cel.Variable("class", cel.StringType), cel.Variable("reason", cel.StringType), cel.Variable("attempts", cel.IntType),
		cel.Variable("first", cel.TimestampType), cel.Variable("last", cel.TimestampType),
	)
	if err != nil {
		return nil, fmt.Errorf("make the language of --match: %w", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("--match: %w", issues.Err())
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf(`--match: %q is a %s, not a condition; write for example 'class == "refused"'`, expression, ast.OutputType())
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, fmt.Errorf("--match: %w", err)
	}
	return func(m router.ParkedMessage) bool {
		result, _, err := program.Eval(map[string]any{
			"id": m.Record.ID, "key": string(m.Record.Key), "payload": string(m.Record.Value),
			"headers": map[string]string(record.Metadata(m.Record)), "size": m.Record.Size(),
			"class": m.Class, "reason": m.Reason, "attempts": m.Attempts, "first": m.First, "last": m.Last,
		})
		return err == nil && result.Value() == true
	}, nil
}
