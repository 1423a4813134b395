package config

import (
	"maps"
	"slices"
	"strings"
)

// sourceText is the long form of from.
type sourceText struct {
	// DataCenter is the name of a data center.
	DataCenter string `yaml:"datacenter"`
	// Topic is what is read: a Kafka topic, a RabbitMQ queue, a Redis stream. It is literal.
	Topic string `yaml:"topic"`
	// Group is the name under which the broker keeps the position; "mqferry-" and the name of the route by default.
	Group string `yaml:"group"`
	// Start is where to begin when the broker has no position of the group: earliest, the default, latest, or a time.
	Start   Start `yaml:"start"`
	Options Raw   `yaml:",inline"`
}

// Validate reports what must be there and is not.
func (s sourceText) Validate() error {
	var group error
	if s.Group == "" {
		group = Invalid("group", `is empty; leave it out for "mqferry-" and the name of the route`)
	}
	return Join(complete(s.DataCenter), group)
}

// destinationText is the long form of to.
type destinationText struct {
	// DataCenter is the name of a data center.
	DataCenter string `yaml:"datacenter"`
	// Topic is what is written: a Kafka topic, a RabbitMQ queue, a Redis stream. {topic}, {key}, {routing_key} and {header.NAME} in it are filled for each message.
	Topic   string `yaml:"topic"`
	Options Raw    `yaml:",inline"`
}

// Validate reports what must be there and is not.
func (d destinationText) Validate() error { return complete(d.DataCenter) }

func complete(dataCenter string) error {
	if dataCenter == "" {
		return Invalid("datacenter", "is missing; write the name of a data center")
	}
	return nil
}

// source returns false when it is not clear what the source is.
func (a *assembly) source(n *node, route string) (Source, bool) {
	text := sourceText{Group: "mqferry-" + route}
	switch {
	case n == nil || n.broken:
		return Source{}, false
	case n.kind == mapping:
		a.decode(n, &text)
	default:
		text.DataCenter, text.Topic, text.Options = a.short(n)
	}
	known := a.knows(n, text.DataCenter)
	return Source(text), known && (text.Topic != "" || n.kind == mapping)
}

// destination returns false when it is not clear what the destination is.
func (a *assembly) destination(n *node) (Destination, bool) {
	if n == nil || n.broken {
		return Destination{}, false
	}
	if n.kind == list {
		switch {
		case len(n.items) == 0:
			a.fail(n, `is an empty list; write "datacenter/topic"`)
			return Destination{}, false
		case len(n.items) > 1:
			a.fail(n, "several destinations are not supported yet; write one route for each")
			return Destination{}, false
		}
		return a.destination(n.items[0])
	}
	var text destinationText
	if n.kind == mapping {
		a.decode(n, &text)
	} else {
		text.DataCenter, text.Topic, text.Options = a.short(n)
	}
	known := a.knows(n, text.DataCenter)
	return Destination(text), known && (text.Topic != "" || n.kind == mapping)
}

// short reads "datacenter/topic"; what it returns is empty after a mistake.
func (a *assembly) short(n *node) (dataCenter, topic string, options Raw) {
	options = Raw{n.with(nil)}
	switch {
	case n.kind == null:
		a.fail(n, `has no value; write "datacenter/topic"`)
		return "", "", options
	case n.kind != scalar:
		a.fail(n, `is %s; write "datacenter/topic" or {datacenter: ..., topic: ...}`, n.what())
		return "", "", options
	case strings.ContainsAny(n.text, "*?{"):
		a.fail(n, "%s has a pattern, and patterns are not supported yet; use the long form for a literal topic: {datacenter: ..., topic: ...}", n.shown())
		return "", "", options
	}
	dataCenter, topic, found := strings.Cut(n.text, "/")
	switch {
	case !found:
		a.fail(n, `%s has no "/"; write "datacenter/topic"`, n.shown())
	case dataCenter == "":
		a.fail(n, `%s has no data center before the "/"; write "datacenter/topic"`, n.shown())
	case topic == "":
		a.fail(n, `%s has no topic behind the "/"; write "datacenter/topic"`, n.shown())
	default:
		return dataCenter, topic, options
	}
	return "", "", options
}

// knows reports a data center that is not defined.
func (a *assembly) knows(n *node, dataCenter string) bool {
	if dataCenter == "" || len(a.centers) == 0 {
		return false // Reported already.
	}
	if _, known := a.centers[dataCenter]; known {
		return true
	}
	if at := n.child("datacenter"); at != nil {
		n = at
	}
	a.fail(n, "data center %s is not defined%s", n.shownPart(dataCenter), instead(dataCenter, slices.Sorted(maps.Keys(a.centers))))
	return false
}
