package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
)

// commitInterval is how long acks are gathered.
const commitInterval = 5 * time.Millisecond

type connection struct{ site *Site }

var (
	_ handlers.Inspector[SourceConfig, DestinationConfig] = (*connection)(nil)
	_ handlers.Partitioned                                = (*connection)(nil)
)

// Subscriber makes the subscriber of one route. A lane is read by one subscriber of a group at a time.
func (c *connection) Subscriber(source handlers.Source, _ SourceConfig) (message.Subscriber, error) {
	return handlers.NewSubscriber(source, newReader(c.site, source), commitInterval), nil
}

// Publisher makes the publisher of one route.
func (c *connection) Publisher(_ handlers.Destination, d DestinationConfig) (message.Publisher, error) {
	return newPublisher(c.site, d), nil
}

// InspectSource tells what a subscriber would find.
func (c *connection) InspectSource(_ context.Context, source handlers.Source, _ SourceConfig) (string, error) {
	return c.inspect(source.Topic)
}

// InspectDestination tells what a publisher would find.
func (c *connection) InspectDestination(_ context.Context, d handlers.Destination, _ DestinationConfig) (string, error) {
	return c.inspect(d.Topic)
}

func (c *connection) inspect(name string) (string, error) {
	s := c.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.downError(); err != nil {
		return "", err
	}
	t, ok := s.topics[name]
	if !ok {
		return fmt.Sprintf("topic %s: will be made", name), nil
	}
	return fmt.Sprintf("topic %s: %d lanes", name, len(t.lanes)), nil
}

// Partitions counts the lanes of topic; a missing one has none.
func (c *connection) Partitions(_ context.Context, name string) (int, error) {
	s := c.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.downError(); err != nil {
		return 0, err
	}
	t, ok := s.topics[name]
	if !ok {
		return 0, nil
	}
	return len(t.lanes), nil
}

// Close does nothing: a site outlives its connections.
func (c *connection) Close() error { return nil }
