package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// A broker of your own in its simplest form is a plain Watermill pub/sub, with options and a Connection around it: this file. Where there is a Watermill
// pub/sub for your broker already, this file is all that you write: Subscriber and Publisher return the stock ones. Here they are our own, in pubsub.go:
// a data center is a folder, a topic is a folder in it, a message is a file.

// spoolConfig is what a user may write about a data center: "spool: {path: …}".
type spoolConfig struct {
	Path config.Path `yaml:"path"` // A relative one is relative to the config file. The last folder of it is made if it is missing.
}

// spoolSource is what a user may add to a route's "from".
type spoolSource struct {
	Poll  config.Duration `yaml:"poll"`  // The pause before an empty folder is looked at again.
	Pause config.Duration `yaml:"pause"` // The pause before a message that failed is delivered again.
	Grace config.Duration `yaml:"grace"` // How long a stop waits for the message in flight, lest it be repeated; keep it below shutdown_timeout.
}

// spoolDestination is what a user may add to a route's "to": nothing.
type spoolDestination struct{}

// defaultSpool gives what holds where the config file says nothing.
func defaultSpool() (spoolConfig, spoolSource, spoolDestination) {
	return spoolConfig{}, spoolSource{
		Poll: config.Duration(200 * time.Millisecond), Pause: config.Duration(time.Second), Grace: config.Duration(5 * time.Second),
	}, spoolDestination{}
}

// Validate is called once the file is decoded over the defaults. Invalid puts the file, the line and the key before the text.
func (c spoolConfig) Validate() error {
	if c.Path == "" {
		return config.Invalid("path", "is missing; write the name of a folder")
	}
	return nil
}

// Validate keeps the two pauses from being busy loops.
func (s spoolSource) Validate() error {
	var errs []error
	if s.Poll <= 0 {
		errs = append(errs, config.Invalid("poll", `is 0; write for example "200ms"`))
	}
	if s.Pause <= 0 {
		errs = append(errs, config.Invalid("pause", `is 0; write for example "1s"`))
	}
	return errors.Join(errs...)
}

// CheckSource is optional: it checks what the options of a source alone cannot tell, here its topic, before anything is started.
func (c spoolConfig) CheckSource(s config.Source, _ spoolSource) error {
	if !isFolder(s.Topic) {
		return config.Invalid("topic", "%q is no name of a folder; leave out slashes and dots in front", s.Topic)
	}
	return nil
}

// isFolder keeps topics inside of the spool, and off its hidden files.
func isFolder(topic string) bool {
	return topic != "" && topic == filepath.Base(topic) && !strings.HasPrefix(topic, ".") && !strings.ContainsRune(topic, 0)
}

// spool is the handlers.Connection of one data center, shared by its routes.
type spool struct {
	root string

	mu   sync.Mutex
	read map[string]bool // The topics that have a subscriber.
}

// openSpool connects. An error means "not now": the router shows it and tries again, so a broker that is down is no reason to give up.
func openSpool(_ context.Context, c spoolConfig, _ handlers.Settings) (handlers.Connection[spoolSource, spoolDestination], error) {
	return &spool{root: string(c.Path), read: map[string]bool{}}, makeFolder(string(c.Path))
}

// Subscriber makes the subscriber of one route. It does not read anything yet: Subscribe does.
func (s *spool) Subscriber(source handlers.Source, o spoolSource) (message.Subscriber, error) {
	ctx, cancel := context.WithCancel(context.Background())
	return &spoolSubscriber{spool: s, options: o, health: source.Health, open: ctx, cancel: cancel}, nil
}

// Publisher makes the publisher of one route.
func (s *spool) Publisher(handlers.Destination, spoolDestination) (message.Publisher, error) {
	return &spoolPublisher{root: s.root, last: map[string]int64{}}, nil
}

// Close has nothing to end: subscribers and publishers are closed before it.
func (s *spool) Close() error { return nil }

// take claims a topic for one subscriber. A spool has no consumer groups: two subscribers would each get the same files.
func (s *spool) take(topic string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read[topic] {
		return fmt.Errorf("topic %q has a subscriber already: a spool has no consumer groups, let only one route read each topic", topic)
	}
	s.read[topic] = true
	return nil
}

func (s *spool) leave(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, topic)
}
