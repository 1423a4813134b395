package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
)

// broker has a field of every kind that can be decoded.
type broker struct {
	Text     string            `yaml:"text"`
	On       bool              `yaml:"on"`
	Small    int8              `yaml:"small"`
	Whole    int               `yaml:"whole"`
	Unsigned uint16            `yaml:"unsigned"`
	Ratio    float64           `yaml:"ratio"`
	Pause    config.Duration   `yaml:"pause"`
	Plain    time.Duration     `yaml:"plain"`
	Limit    config.Size       `yaml:"limit"`
	Password config.Secret     `yaml:"password"`
	Start    config.Start      `yaml:"start"`
	Level    level             `yaml:"level"`
	Hosts    []string          `yaml:"hosts"`
	Numbers  []int             `yaml:"numbers"`
	Nodes    []part            `yaml:"nodes"`
	Part     part              `yaml:"part"`
	Pointer  *part             `yaml:"pointer"`
	Number   *int              `yaml:"number"`
	Labels   map[string]string `yaml:"labels"`
	Parts    map[string]part   `yaml:"parts"`
	Any      map[string]any    `yaml:"any"`
	Later    config.Raw        `yaml:"later"`
	Shared   shared            `yaml:",inline"`
	Untagged string
	Hidden   string `yaml:"-"`
	internal string
}

type shared struct {
	ClientID string `yaml:"client_id"`
}

func (s shared) Validate() error {
	if s.ClientID == "bad" {
		return config.Invalid("client_id", "%q is taken", s.ClientID)
	}
	return nil
}

type part struct {
	Port int    `yaml:"port"`
	Name string `yaml:"name"`
}

func (p *part) Validate() error {
	var port, name error
	if p.Port < 0 {
		port = config.Invalid("port", `"%d" is below 0`, p.Port)
	}
	if p.Name == "bad" {
		name = fmt.Errorf("in a part: %w", config.Invalid("name", "%q is taken", p.Name))
	}
	if p.Port == 13 {
		return errors.New("does not like the number")
	}
	return errors.Join(port, name)
}

// level is a type of somebody else that reads itself.
type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return fmt.Errorf("unknown level %s", strings.ToUpper(string(text)))
	}
	*l = 1
	return nil
}

func raw(t *testing.T, text string) config.Raw {
	t.Helper()
	r, err := config.ParseRaw("b.yml", []byte(text), config.WithLookup(environment))
	require.NoError(t, err)
	return r
}

func TestEveryKindOfFieldIsDecodedOverItsDefault(t *testing.T) {
	number := 3
	b := broker{
		Text: "kept", Hidden: "kept", internal: "kept", Hosts: []string{"gone"},
		Part: part{Port: 1, Name: "kept"}, Pointer: &part{Port: 1, Name: "kept"}, Number: &number,
		Labels: map[string]string{"a": "kept", "b": "gone"}, Parts: map[string]part{"x": {Name: "kept"}},
	}
	before := b.Pointer
	require.NoError(t, raw(t, `
on: true
small: -128
whole: "7"
unsigned: 65535
ratio: 0.5
pause: 1h30m
plain: 250ms
limit: 64MiB
password: ${MQFERRY_TEST_CANARY}
start: latest
level: high
hosts: one
numbers: [1, 2]
nodes: [{port: 1}, {name: n}]
part: {port: 2}
pointer: {port: 2}
number: 4
labels: {b: new, c: "1"}
parts: {x: {port: 2}}
any: {n: 1, f: 1.5, t: true, s: text, l: [a, 1], e: null}
later: {own: 1}
client_id: me
untagged: yes
`).Decode(&b))
	require.True(t, b.On)
	require.Equal(t, []int{-128, 7, 65535}, []int{int(b.Small), b.Whole, int(b.Unsigned)})
	require.InDelta(t, 0.5, b.Ratio, 0)
	require.Equal(t, []time.Duration{90 * time.Minute, 250 * time.Millisecond}, []time.Duration{time.Duration(b.Pause), b.Plain})
	require.Equal(t, config.Size(64<<20), b.Limit)
	require.Equal(t, canary, b.Password.Reveal())
	require.True(t, b.Start.Latest)
	require.Equal(t, level(1), b.Level)
	require.Equal(t, []string{"one"}, b.Hosts, "one value is a list of one")
	require.Equal(t, []int{1, 2}, b.Numbers)
	require.Equal(t, []part{{Port: 1}, {Name: "n"}}, b.Nodes)
	require.Equal(t, part{Port: 2, Name: "kept"}, b.Part)
	require.Equal(t, &part{Port: 2, Name: "kept"}, b.Pointer)
	require.Equal(t, part{Port: 1, Name: "kept"}, *before, "defaults may be shared and are not written to")
	require.Equal(t, []int{4, 3}, []int{*b.Number, number})
	require.Equal(t, map[string]string{"a": "kept", "b": "new", "c": "1"}, b.Labels)
	require.Equal(t, map[string]part{"x": {Port: 2, Name: "kept"}}, b.Parts)
	require.Equal(t, map[string]any{"n": 1, "f": 1.5, "t": true, "s": "text", "l": []any{"a", 1}, "e": nil}, b.Any)
	require.Equal(t, "me", b.Shared.ClientID)
	require.Equal(t, []string{"kept", "kept", "kept", "yes"}, []string{b.Text, b.Hidden, b.internal, b.Untagged})
	require.Equal(t, 22, b.Later.Line())
	require.ErrorContains(t, b.Later.Decode(&part{}), `b.yml:22: later: unknown key "own"`)
}

func TestEveryMistakeOfAPartIsShownAtItsPlace(t *testing.T) {
	err := raw(t, `
text: [a]
on: yes
small: 128
whole: 1.5
unsigned: -1
ratio: .nan
pause: 5
plain: soon
limit: 1XiB
password: {a: b}
start: later
level: low
hosts: {a: b}
numbers: [1, two, 3, four]
nodes: [{port: x, nam: y}, {port: -1}]
part: text
pointer: {port: -2, name: bad}
number:
labels: [a]
parts: {x: {port: 13}, y: 1}
passwort: x
client_id: bad
hidden: x
internal: x
up: x
`).Decode(&broker{})
	want := []string{
		`b.yml:2: text: is a list, not a single value`,
		`b.yml:3: on: "yes" is neither true nor false`,
		`b.yml:4: small: "128" is not between -128 and 127`,
		`b.yml:5: whole: "1.5" is not a whole number`,
		`b.yml:6: unsigned: "-1" is not between 0 and 65535`,
		`b.yml:7: ratio: ".nan" is not a number`,
		`b.yml:8: pause: "5" has no unit; write for example "20s" or "500ms"`,
		`b.yml:9: plain: "soon" is not a duration; write for example "500ms", "20s" or "1h30m"`,
		`b.yml:10: limit: "1XiB" is not a size; write for example "64MiB", "200kB" or "4096"`,
		`b.yml:11: password: is a mapping, not a single value`,
		`b.yml:12: start: "later" is not a start; write "earliest", "latest" or a time such as "2026-01-31T08:00:00Z"`,
		`b.yml:13: level: unknown level LOW`,
		`b.yml:14: hosts: is a mapping, not a list`,
		`b.yml:15: numbers[1]: "two" is not a whole number`,
		`b.yml:15: numbers[3]: "four" is not a whole number`,
		`b.yml:16: nodes[0].port: "x" is not a whole number`,
		`b.yml:16: nodes[0]: unknown key "nam"; did you mean "name"? (have: port, name)`,
		`b.yml:16: nodes[1].port: "-1" is below 0`,
		`b.yml:17: part: is a single value, not a mapping`,
		`b.yml:18: pointer.port: "-2" is below 0`,
		`b.yml:18: pointer.name: "bad" is taken`,
		`b.yml:20: labels: is a list, not a mapping`,
		`b.yml:21: parts.x: does not like the number`,
		`b.yml:21: parts.y: is a single value, not a mapping`,
		`b.yml:22: unknown key "passwort"; did you mean "password"?`,
		`b.yml:23: client_id: "bad" is taken`,
		`b.yml:24: unknown key "hidden"`,
		`b.yml:25: unknown key "internal"`,
		`b.yml:26: unknown key "up" (have: text, on,`,
	}
	got := strings.Split(err.Error(), "\n")
	require.Len(t, got, len(want), strings.Join(got, "\n"))
	for i := range want {
		require.True(t, strings.HasPrefix(got[i], want[i]), "want %s\ngot  %s", want[i], got[i])
	}
}

func TestValidateIsNotAskedAboutWhatCouldNotBeRead(t *testing.T) {
	b := redis{}
	err := raw(t, "adress: h:1").Decode(&b)
	require.EqualError(t, err, `b.yml:1: unknown key "adress"; did you mean "address"? (have: address, password, linger)`)
	err = raw(t, "address: [h:1]").Decode(&b)
	require.EqualError(t, err, "b.yml:1: address: is a list, not a single value")
	err = raw(t, "parts: {a: {port: x, name: bad}, b: {port: 13, nme: x}}").Decode(&broker{Parts: map[string]part{"b": {Port: 13}}})
	require.EqualError(t, err, `b.yml:1: parts.a.port: "x" is not a whole number
b.yml:1: parts.a.name: "bad" is taken
b.yml:1: parts.b: unknown key "nme"; did you mean "name"? (have: port, name)`, "what Validate says of the whole may follow from a mistake in it")
	err = raw(t, "linger: 1s").Decode(&b)
	require.EqualError(t, err, `b.yml:1: address: "" is not host:port: missing port in address`, "a field that is not there is placed at its mapping")
}

func TestAnErrorNeverShowsAValueFromOutside(t *testing.T) {
	r := raw(t, `
text: "x ${MQFERRY_TEST_CANARY} y"
level: ${MQFERRY_TEST_CANARY}
whole: ${MQFERRY_TEST_CANARY}
client_id: plain
`)
	err := r.Decode(&broker{})
	require.EqualError(t, err, `b.yml:3: level: "${MQFERRY_TEST_CANARY}" has a value that is not accepted here
b.yml:4: whole: "${MQFERRY_TEST_CANARY}" is not a whole number`)

	cause := errors.New("cause")
	err = r.At("text").Errorf("cannot open %q: %w", "x "+canary+" y", cause)
	require.EqualError(t, err, `b.yml:2: text: cannot open "x ${MQFERRY_TEST_CANARY} y": cause`)
	require.ErrorIs(t, err, cause)
	err = r.At("client_id").Errorf("is not %s", canary)
	require.EqualError(t, err, "b.yml:5: client_id: is not ${MQFERRY_TEST_CANARY}", "also at another place of the file")
}

func TestALongValueFromOutsideIsNotShownInPieces(t *testing.T) {
	long := strings.Repeat(canary, 20)
	r, err := config.ParseRaw("b.yml", []byte("whole: ${X}"), config.WithLookup(func(string) (string, bool) { return long, true }))
	require.NoError(t, err)
	require.EqualError(t, r.Decode(&broker{}), `b.yml:1: whole: "${X}" is not a whole number`)
}

func TestShortValuesFromOutsideDoNotGarbleMessages(t *testing.T) {
	lookup := func(string) (string, bool) { return "5", true }
	r, err := config.ParseRaw("b.yml", []byte("text: ${X}"), config.WithLookup(lookup))
	require.NoError(t, err)
	require.EqualError(t, r.At("text").Errorf(`"5" is not 1500`), `b.yml:1: text: "${X}" is not 1500`)
}

func TestAPartThatIsNotThereDecodesToNothing(t *testing.T) {
	var zero config.Raw
	b := redis{Address: "not valid"}
	require.True(t, zero.IsZero())
	require.NoError(t, zero.Decode(&b))
	require.Equal(t, "not valid", b.Address)
	require.Equal(t, zero, zero.At("x"))
	require.EqualError(t, zero.Errorf("no %s", "place"), "no place")
	require.Equal(t, " 0 ", fmt.Sprintf("%s %d %s", zero.Path(), zero.Line(), zero.File()))

	for text, want := range map[string]bool{"a: {}": true, "a: []": true, "a:": true, "a: 0": false, "a: {b: c}": false, "a: [b]": false} {
		require.Equal(t, want, raw(t, text).At("a").IsZero(), text)
	}
}

func TestAPartKnowsItsPlace(t *testing.T) {
	r := raw(t, "a:\n  b:\n    - c: 1\n  \"d e\": {f.g: 1}\n").At("a")
	require.Equal(t, "a", r.Path())
	require.Equal(t, 1, r.Line())
	require.Equal(t, "b.yml", r.File())
	require.Equal(t, "a.b", r.At("b").Path())
	require.Equal(t, "b.yml:2: a.b", r.At("b").String())
	require.Equal(t, `a."d e"."f.g"`, r.At("d e").At("f.g").Path())
	require.Equal(t, "a", r.At("nothing").Path(), "a key that is not there leaves the place where it could be")
}

func TestDecodingIntoAnythingButAPointerIsAMistakeOfTheProgram(t *testing.T) {
	require.Panics(t, func() { _ = raw(t, "a: 1").Decode(redis{}) })
	require.Panics(t, func() { _ = raw(t, "a: 1").Decode(nil) })
}

func TestJoinKeepsWhatIsAroundACause(t *testing.T) {
	require.NoError(t, config.Join(nil, nil))
	r := raw(t, "a: 1\nb: 2")
	first, second := r.At("a").Errorf("first"), r.At("b").Errorf("second")
	plain := errors.New("no place")
	wrapped := fmt.Errorf("around: %w", errors.Join(first, plain))
	err := config.Join(plain, errors.Join(second, nil, errors.Join(first)), wrapped, second)
	var all config.Errors
	require.ErrorAs(t, err, &all)
	require.Equal(t, config.Errors{first, wrapped, second, plain}, all)

	both := fmt.Errorf("neither %w nor %w", plain, errors.New("other"))
	require.Equal(t, config.Errors{both}, config.Join(both))
}
