package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/middleware"
)

// laned is what a pipelined subscriber can do beyond Watermill's: give up at once, and tell about its lanes.
type laned interface {
	Abort()
	Lanes() map[string]lane.State
}

// conns are the open connections that a route needs. Poison is nil where nothing is parked.
type conns struct{ from, to, poison handlers.Conn }

// parts are what one run of a route is made of.
type parts struct {
	publisher  message.Publisher
	poison     message.Publisher // Nil where nothing is parked.
	subscriber message.Subscriber
	links      []message.HandlerMiddleware
	relay      *handlers.Relay
	gates      []func(*message.Message) error
	ends       []func() error // Of the middleware, in the order of their registration.
}

// build makes the parts of a route out of open connections, the publishers first. It does not start them, and closes what it made when it fails.
func (r *route) build(ctx context.Context, c conns) (_ *parts, err error) {
	source, destination := r.ends(c.from)
	p := &parts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.publisher, err = c.to.Publisher(destination, r.plan.destination); err != nil {
		r.destinationHealth.Down(err)
		return nil, fmt.Errorf("route %q: publisher of %s: %w", r.plan.Name, r.plan.To.DataCenter, err)
	}
	r.destinationHealth.Up()
	parking, err := r.parking(ctx, p, c.poison)
	if err != nil {
		r.poisonHealth.Down(err)
		return nil, fmt.Errorf("route %q: poison queue: %w", r.plan.Name, err)
	}
	if p.links, err = chain(r.plan, parking, r.settings(p)); err != nil {
		r.destinationHealth.Down(err)
		return nil, fmt.Errorf("route %q: %w", r.plan.Name, err)
	}
	if p.subscriber, err = c.from.Subscriber(source, r.plan.source); err != nil {
		r.sourceHealth.Down(err)
		return nil, fmt.Errorf("route %q: subscriber of %s: %w", r.plan.Name, r.plan.From.DataCenter, err)
	}
	_, lanes := p.subscriber.(laned)
	p.relay = handlers.NewRelay(destination, p.publisher, lanes, p.gates...)
	return p, nil
}

// settings are what the links of the chain get, who register in p what is theirs.
func (r *route) settings(p *parts) middleware.Settings {
	return middleware.Settings{
		Route: r.plan.Name, Logger: r.logger, Health: r.destinationHealth, Meter: r.meter,
		OnClose: func(end func() error) { p.ends = append(p.ends, end) },
		AtTurn:  func(gate func(*message.Message) error) { p.gates = append(p.gates, gate) },
	}
}

// inspectTimeout bounds the look at a poison queue before anything is consumed.
const inspectTimeout = 15 * time.Second

// parking makes the link that parks, once it is clear that messages can be parked. It is nil where they are not.
func (r *route) parking(ctx context.Context, p *parts, conn handlers.Conn) (message.HandlerMiddleware, error) {
	to := r.plan.poison
	if to == nil {
		return nil, nil
	}
	destination := r.poisonQueue()
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	if _, err := conn.InspectDestination(ctx, destination, to.options); err != nil {
		return nil, err
	}
	p.poison = &lazyPublisher{make: func() (message.Publisher, error) { return conn.Publisher(destination, to.options) }}
	r.poisonHealth.Up()
	return middleware.Poison(middleware.PoisonQueue{
		Park:  handlers.NewRelay(destination, p.poison, false).Handle,
		Place: to.String(), Holds: r.plan.policies.holds(),
	}, r.settings(p)), nil
}

// poisonQueue describes the poison queue to its broker.
func (r *route) poisonQueue() handlers.Destination {
	return handlers.Destination{
		Route: r.plan.Name, DataCenter: r.plan.poison.dataCenter, Topic: r.plan.poison.topic,
		Logger: r.logger, Meter: &handlers.Meter{}, Health: r.poisonHealth,
	}
}

// String names the poison queue as the short form does.
func (p *poisonPlan) String() string { return p.dataCenter + "/" + p.topic }

// ends describes both ends to their brokers. From may be nil when it is not to be read.
func (r *route) ends(from handlers.Conn) (handlers.Source, handlers.Destination) {
	p := r.plan
	source := handlers.Source{
		Route: p.Name, DataCenter: p.From.DataCenter, Topic: p.From.Topic, Group: p.From.Group, Start: p.From.Start,
		Window: p.Window, Strict: p.Order == config.OrderStrict, Concurrency: p.policies.Concurrency, Bytes: r.bytes, Budget: r.budget,
		Logger: r.logger, Meter: r.meter, Health: r.sourceHealth, Destination: r.destinationHealth,
	}
	destination := handlers.Destination{
		Route: p.Name, DataCenter: p.To.DataCenter, Topic: p.To.Topic, Template: p.template, GiveUp: p.policies.giveUp(),
		Logger: r.logger, Meter: r.meter, Health: r.destinationHealth,
	}
	if from == nil {
		return source, destination
	}
	if partitioned, ok := from.Unwrap().(handlers.Partitioned); ok {
		destination.SourcePartitions = func(ctx context.Context) (int, error) { return partitioned.Partitions(ctx, p.From.Topic) }
	}
	return source, destination
}

// start subscribes, and makes the route's own Watermill router: the chain around the relay. Watermill never closes the publisher: the route does, last.
// It subscribes before Watermill does, since a Watermill router whose subscriber fails cannot be closed.
func (r *route) start(intake context.Context, p *parts) (*message.Router, error) {
	messages, err := p.subscriber.Subscribe(intake, r.plan.From.Topic)
	if err != nil {
		r.sourceHealth.Down(err)
		return nil, fmt.Errorf("route %q: subscribe to %s: %w", r.plan.Name, r.plan.From, err)
	}
	w, err := message.NewRouter(message.RouterConfig{CloseTimeout: r.shutdown + grace}, handlers.WatermillLogger{Logger: r.logger})
	if err != nil {
		return nil, err
	}
	w.AddMiddleware(p.links...)
	w.AddConsumerHandler(r.plan.Name, r.plan.From.Topic, subscribed{p.subscriber, messages}, p.relay.Handle)
	return w, nil
}

// subscribed is a subscriber whose Subscribe was called already.
type subscribed struct {
	message.Subscriber
	messages <-chan *message.Message
}

func (s subscribed) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return s.messages, nil
}

// close closes what build made and nobody runs any more: the subscriber first, then what it hands to.
func (p *parts) close() error {
	var errs []error
	if p.subscriber != nil {
		errs = append(errs, p.subscriber.Close())
	}
	return errors.Join(append(errs, p.closePublishers(), p.closeMiddleware())...)
}

// closePublishers fails what they have not confirmed yet. It may be called twice.
func (p *parts) closePublishers() error {
	var errs []error
	for _, publisher := range []message.Publisher{p.publisher, p.poison} {
		if publisher != nil {
			errs = append(errs, publisher.Close())
		}
	}
	return errors.Join(errs...)
}

// closeMiddleware ends what the middleware has opened, the last first.
func (p *parts) closeMiddleware() error {
	var errs []error
	for _, end := range slices.Backward(p.ends) {
		errs = append(errs, end())
	}
	p.ends = nil
	return errors.Join(errs...)
}
