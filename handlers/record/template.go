package record

import (
	"fmt"
	"slices"
	"strings"
)

// RoutingKeyEntry is the header in which a RabbitMQ source declares the routing key of a message.
const RoutingKeyEntry = "mqferry_routing_key"

// Template is a text with placeholders that are filled for each message: {key}, {topic} (of the source), {routing_key} (where there is none,
// the topic of the source, as a RabbitMQ queue has its name for one) and {header.NAME} (the last header of that name). "{{" and "}}" stand for single braces. The zero Template is an empty text. It is immutable.
type Template struct {
	text  string
	parts []part
}

// part is either literal or a placeholder.
type part struct{ literal, placeholder, header string }

// ParseTemplate reads a template; an unknown placeholder or a lone brace is an error.
func ParseTemplate(text string) (Template, error) {
	t := Template{text: text}
	var literal strings.Builder
	for rest := text; rest != ""; {
		switch i := strings.IndexAny(rest, "{}"); {
		case i < 0:
			literal.WriteString(rest)
			rest = ""
		case strings.HasPrefix(rest[i+1:], rest[i:i+1]):
			literal.WriteString(rest[:i+1])
			rest = rest[i+2:]
		case rest[i] == '}':
			return Template{}, fmt.Errorf(`%q has a "}" without a "{"; write "}}" for a literal one`, text)
		default:
			literal.WriteString(rest[:i])
			inner, after, closed := strings.Cut(rest[i+1:], "}")
			if !closed {
				return Template{}, fmt.Errorf(`%q has a "{" without a "}"; write "{{" for a literal one`, text)
			}
			p, err := placeholder(inner)
			if err != nil {
				return Template{}, fmt.Errorf("%q: %w", text, err)
			}
			t.literal(&literal)
			t.parts = append(t.parts, p)
			rest = after
		}
	}
	t.literal(&literal)
	return t, nil
}

func (t *Template) literal(b *strings.Builder) {
	if b.Len() > 0 {
		t.parts = append(t.parts, part{literal: b.String()})
		b.Reset()
	}
}

func placeholder(name string) (part, error) {
	switch name {
	case "key", "routing_key", "topic":
		return part{placeholder: name}, nil
	}
	if header, ok := strings.CutPrefix(name, "header."); ok && header != "" {
		return part{placeholder: "header", header: header}, nil
	}
	return part{}, fmt.Errorf(`{%s} is not one of {key}, {routing_key}, {topic}, {header.NAME}; write "{{" for a literal brace`, name)
}

// UnmarshalText is ParseTemplate.
func (t *Template) UnmarshalText(text []byte) error {
	parsed, err := ParseTemplate(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// String gives the template as it was written.
func (t Template) String() string { return t.text }

// Literal gives the text, and true, when there are no placeholders in it.
func (t Template) Literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].placeholder == "":
		return t.parts[0].literal, true
	}
	return "", false
}

// Fill gives the text for r. Ok is false when r lacks something that a placeholder stands for; it is then empty in the text.
func (t Template) Fill(r *Record) (text string, ok bool) {
	if literal, is := t.Literal(); is {
		return literal, true
	}
	ok = true
	var b strings.Builder
	for i := range t.parts {
		value, found := t.parts[i].value(r)
		ok = ok && found
		b.WriteString(value)
	}
	return b.String(), ok
}

func (p *part) value(r *Record) (string, bool) {
	switch p.placeholder {
	case "key":
		return string(r.Key), r.Key != nil
	case "topic":
		return r.Source.Topic, r.Source.Topic != ""
	case "routing_key":
		if key, ok := lastHeader(r, RoutingKeyEntry); ok {
			return key, true
		}
		return r.Source.Topic, r.Source.Topic != ""
	case "header":
		return lastHeader(r, p.header)
	}
	return p.literal, true
}

func lastHeader(r *Record, name string) (string, bool) {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value), h.Value != nil
		}
	}
	return "", false
}
