package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

// stampConfig is what a user may write about the middleware: "middleware: [{stamp: {header: via, value: shanghai}}]".
type stampConfig struct {
	Header    string `yaml:"header"`     // The name of the header to set.
	Value     string `yaml:"value"`      // What it is set to; the name of the host if empty.
	DropEmpty bool   `yaml:"drop_empty"` // Messages without a payload are not delivered.
}

// defaultStamp gives what holds where the config file says nothing.
func defaultStamp() stampConfig { return stampConfig{Header: "relayed-by"} }

// Validate is called once the file is decoded over the defaults. Invalid puts the file, the line and the key before the text.
func (c stampConfig) Validate() error {
	switch c.Header {
	case "":
		return config.Invalid("header", `is empty; write a name, for example "relayed-by"`)
	case record.IDKey:
		return config.Invalid("header", "%q is the id of a message, not a header; choose another name", c.Header)
	}
	return nil
}

// newStamp makes the link of one route: an ordinary Watermill middleware. It is called whenever the route is started: what it opens, a client or a cache,
// is closed by a function that it gives to OnClose of the settings. An error of it keeps the route from running, is shown, and it is called again later.
func newStamp(c stampConfig, _ middleware.Settings) (message.HandlerMiddleware, error) {
	return stamp{c, os.Hostname}.link, nil
}

type stamp struct {
	stampConfig
	host func() (string, error)
}

// link is called for many messages at once: what they share needs a lock.
func (s stamp) link(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if err := s.mark(msg); err != nil {
			return nil, err
		}
		return next(msg)
	}
}

// mark changes the message in place, and what it does not change is delivered as it was. A middleware that has to hand on another message must make it
// by msg.CopyWithContext(): Copy leaves the context behind, and with it the message's place in its lane.
func (s stamp) mark(msg *message.Message) error {
	if s.DropEmpty && len(msg.Payload) == 0 {
		// Drop: not delivered on purpose. It is acked at the source and counted, never tried again. To return nil without calling next is not the
		// same: that looks like a message that was forgotten.
		return middleware.Drop("it is empty")
	}
	value := s.Value
	if value == "" {
		host, err := s.host()
		if err != nil {
			// Unavailable: it is not the message's fault, something that we need is down. The message is tried again until it is up.
			return handlers.Unavailable(fmt.Errorf("ask for the name of the host: %w", err))
		}
		value = host
	}
	if old := msg.Metadata.Get(s.Header); cmp.Or(old, value) != value {
		// Permanent: this message can never pass, however often it is tried. It goes to the poison queue of the route at once, and is delivered again
		// and again where there is none. An error without a class is in between: to try again may help, but not for ever.
		return handlers.Permanent(fmt.Errorf("header %q is %q already: it must not be overwritten", s.Header, old))
	}
	msg.Metadata.Set(s.Header, value)
	return nil
}
