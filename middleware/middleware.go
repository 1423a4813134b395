package middleware

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
)

// Middleware is a kind of middleware, with typed options: a line in the table of those that there are.
type Middleware interface {
	// Decode reads the options of one route strictly, over the defaults, and checks them with their Validate method if they have one.
	Decode(config.Raw) (Maker, error)
	// Defaults gives the options that a file says nothing about.
	Defaults() any
}

// Maker makes the link of one route's chain. It is called each time the route is started.
type Maker func(Settings) (message.HandlerMiddleware, error)

// New makes a kind of middleware from its default options and its constructor. The fields of C need yaml tags; a method Validate() error on it
// checks the values, best with config.Invalid, which places a mistake at its field.
func New[C any](defaults func() C, construct func(C, Settings) (message.HandlerMiddleware, error)) Middleware {
	return kind[C]{defaults: defaults, construct: construct}
}

type kind[C any] struct {
	defaults  func() C
	construct func(C, Settings) (message.HandlerMiddleware, error)
}

func (k kind[C]) Defaults() any { return k.defaults() }

func (k kind[C]) Decode(raw config.Raw) (Maker, error) {
	c := k.defaults()
	if err := raw.Decode(&c); err != nil {
		return nil, err
	}
	return func(s Settings) (message.HandlerMiddleware, error) { return k.construct(c, s) }, nil
}
