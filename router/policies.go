package router

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// routeOptions is what a route says of its chain: the keys that package config leaves to this one.
type routeOptions struct {
	// Retry says how often a refused message is tried again.
	Retry middleware.RetryConfig `yaml:"retry"`
	// Poison is where messages are parked that were given up: {topic, datacenter, and the options of a destination there}, or off. By default "{topic}.poison" at
	// the source's data center.
	Poison config.Raw `yaml:"poison"`
	// OnRefused is park, the default, or hold: what becomes of a message that is refused to the last attempt.
	OnRefused onRefusal `yaml:"on_refused"`
	// OnCapacity is hold, the default, or park: what becomes of a message for which the destination has no room.
	OnCapacity onRefusal `yaml:"on_capacity"`
	// OnUnroutable is hold, the default, or park: what becomes of a message for which the destination has no place.
	OnUnroutable onRefusal `yaml:"on_unroutable"`
	// Timeout is how long the route's own middleware may take for a message in one attempt; no limit by default.
	Timeout middleware.TimeoutConfig `yaml:"timeout"`
	// Concurrency is how many messages of a lane may be in the route's own middleware at once; by default as many as the window holds. With 1 it sees them in order.
	Concurrency int `yaml:"concurrency"`
	// Throttle bounds the rate of the route: {messages_per_second, bytes_per_second, burst}; no limit by default.
	Throttle config.Raw `yaml:"throttle"`
	// MaxMessageBytes is the largest message that is carried; a larger one is parked at once. No limit by default.
	MaxMessageBytes middleware.SizeLimitConfig `yaml:"max_message_bytes"`
	// Deduplicate drops copies of messages that were delivered: {by, ttl, max_entries, redis}; off by default.
	Deduplicate config.Raw `yaml:"deduplicate"`
	// Middleware is the route's own, outermost first: names, or {name: {options}}.
	Middleware config.Raw `yaml:"middleware"`
}

func defaultRouteOptions() routeOptions {
	return routeOptions{Retry: middleware.DefaultRetry(), OnRefused: park, OnCapacity: hold, OnUnroutable: hold}
}

// onRefusal is what becomes of a message that the destination does not take.
type onRefusal string

const (
	park onRefusal = "park"
	hold onRefusal = "hold"
)

// Words are the values that there are.
func (onRefusal) Words() []string { return []string{string(hold), string(park)} }

// UnmarshalText accepts park and hold.
func (o *onRefusal) UnmarshalText(text []byte) error {
	switch word := onRefusal(text); word {
	case park, hold:
		*o = word
		return nil
	}
	return fmt.Errorf(`%q is neither "park" nor "hold"`, text)
}

// Validate reports numbers out of range.
func (o routeOptions) Validate() error {
	if o.Concurrency < 0 {
		return config.Invalid("concurrency", "%d is negative; leave it out for no limit", o.Concurrency)
	}
	return nil
}

// routeKeys are the names of the options.
func routeKeys() []string {
	var names []string
	for f := range reflect.TypeFor[routeOptions]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}

// poisonPlan is where a route parks.
type poisonPlan struct {
	dataCenter, topic string
	options           handlers.Options
}

// poisonText is the long form of poison.
type poisonText struct {
	// Topic is the poison queue; {topic} in it stands for the route's source topic.
	Topic record.Template `yaml:"topic"`
	// DataCenter is where it is; by default that of the source.
	DataCenter string     `yaml:"datacenter"`
	Options    config.Raw `yaml:",inline"`
}

// poison decodes where a route parks. Nil means that it does not.
func (p *plan) poison(r config.Route, raw config.Raw) (*poisonPlan, error) {
	if word, ok := raw.Text(); ok {
		if word == "off" {
			return nil, nil
		}
		return nil, raw.Errorf(`%q is neither "off" nor a mapping; write for example {topic: "{topic}.poison"}`, word)
	}
	text := poisonText{DataCenter: r.From.DataCenter}
	if err := text.Topic.UnmarshalText([]byte("{topic}.poison")); err != nil {
		return nil, err
	}
	if err := raw.Decode(&text); err != nil {
		return nil, err
	}
	topic, ok := text.Topic.Fill(&record.Record{Source: record.Source{Topic: r.From.Topic}})
	if !ok || topic == "" {
		return nil, raw.Locate(config.Invalid("topic", `%q has a placeholder other than {topic}, or is empty`, text.Topic))
	}
	if text.DataCenter == r.From.DataCenter && topic == r.From.Topic || text.DataCenter == r.To.DataCenter && topic == r.To.Topic {
		return nil, raw.Locate(config.Invalid("topic", "%q is an end of the route itself", topic))
	}
	dc, ok := p.dataCenters[text.DataCenter]
	if !ok {
		return nil, raw.Locate(config.Invalid("datacenter", "data center %q is not defined", text.DataCenter))
	}
	options, err := dc.PoisonOptions(config.Destination{DataCenter: text.DataCenter, Topic: topic, Options: text.Options})
	return &poisonPlan{dataCenter: text.DataCenter, topic: topic, options: options}, err
}

// policies decodes what a route says of its chain.
func (p *plan) policies(route *routePlan, known map[string]middleware.Middleware) error {
	o := defaultRouteOptions()
	if err := route.Options.Decode(&o); err != nil {
		return err
	}
	route.policies = o
	var errs []error
	var err error
	if route.custom, err = customLinks(o.Middleware, known); err != nil {
		errs = append(errs, err)
	}
	if !o.Throttle.IsZero() {
		c := middleware.DefaultThrottle()
		errs = append(errs, o.Throttle.Decode(&c))
		route.throttle = &c
	}
	if _, on := route.Options.Child("deduplicate"); on {
		c := middleware.DefaultDeduplicate()
		errs = append(errs, o.Deduplicate.Decode(&c))
		route.deduplicate = &c
	}
	if route.poison, err = p.poison(route.Route, o.Poison); err != nil {
		errs = append(errs, err)
	}
	if route.poison == nil && err == nil {
		for key, policy := range map[string]onRefusal{"on_capacity": o.OnCapacity, "on_unroutable": o.OnUnroutable} {
			if policy == park {
				errs = append(errs, route.Options.Locate(config.Invalid(key, "park needs a poison queue, and poison is off")))
			}
		}
	}
	return config.Join(errs...)
}

// giveUp lists the classes of no for which messages leave the relay although their lane would hold them.
func (o routeOptions) giveUp() []handlers.Class {
	var classes []handlers.Class
	if o.OnCapacity == park {
		classes = append(classes, handlers.ClassFull)
	}
	if o.OnUnroutable == park {
		classes = append(classes, handlers.ClassUnroutable)
	}
	return classes
}

// holds lists the classes of error for which a message is not parked, but tried again for ever.
func (o routeOptions) holds() []handlers.Class {
	if o.OnRefused == hold {
		return []handlers.Class{handlers.Unclassified, handlers.ClassRefused, handlers.ClassPermanent}
	}
	return nil
}
