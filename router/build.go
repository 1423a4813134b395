package router

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// parts are what one run of a route is made of.
type parts struct {
	publisher  message.Publisher
	subscriber message.Subscriber
	relay      *handlers.Relay
	ends       []func() error // Of the middleware, in the order of their registration.
}

// build makes the parts of a route out of open connections, the publisher first. It does not start them, and closes what it made when it fails.
func (r *route) build(from, to handlers.Conn) (_ *parts, err error) {
	source, destination := r.ends(from)
	p := &parts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.publisher, err = to.Publisher(destination, r.plan.destination); err != nil {
		r.destinationHealth.Down(err)
		return nil, fmt.Errorf("route %q: publisher of %s: %w", r.plan.Name, r.plan.To.DataCenter, err)
	}
	r.destinationHealth.Up()
	if p.subscriber, err = from.Subscriber(source, r.plan.source); err != nil {
		r.sourceHealth.Down(err)
		return nil, fmt.Errorf("route %q: subscriber of %s: %w", r.plan.Name, r.plan.From.DataCenter, err)
	}
	_, lanes := p.subscriber.(laned)
	p.relay = handlers.NewRelay(destination, p.publisher, lanes)
	return p, nil
}

// ends describes both ends to their brokers.
func (r *route) ends(from handlers.Conn) (handlers.Source, handlers.Destination) {
	p := r.plan
	source := handlers.Source{
		Route: p.Name, DataCenter: p.From.DataCenter, Topic: p.From.Topic, Group: p.From.Group, Start: p.From.Start,
		Window: p.Window, Strict: p.Order == config.OrderStrict, Bytes: r.bytes, Budget: r.budget,
		Logger: r.logger, Meter: r.meter, Health: r.sourceHealth, Destination: r.destinationHealth,
	}
	destination := handlers.Destination{
		Route: p.Name, DataCenter: p.To.DataCenter, Topic: p.To.Topic, Template: p.template,
		Logger: r.logger, Meter: r.meter, Health: r.destinationHealth,
	}
	if partitioned, ok := from.Unwrap().(handlers.Partitioned); ok {
		destination.SourcePartitions = func(ctx context.Context) (int, error) { return partitioned.Partitions(ctx, p.From.Topic) }
	}
	return source, destination
}

// start subscribes, and makes the route's own Watermill router: the chain around the relay. Watermill never closes the publisher: the route does, last.
// It subscribes before Watermill does, since a Watermill router whose subscriber fails cannot be closed.
func (r *route) start(intake context.Context, p *parts) (*message.Router, error) {
	links, err := chain(r.plan, middleware.Settings{
		Route: r.plan.Name, Logger: r.logger, Health: r.destinationHealth, Meter: r.meter,
		OnClose: func(end func() error) { p.ends = append(p.ends, end) },
	})
	if err != nil {
		r.destinationHealth.Down(err)
		return nil, fmt.Errorf("route %q: %w", r.plan.Name, err)
	}
	messages, err := p.subscriber.Subscribe(intake, r.plan.From.Topic)
	if err != nil {
		r.sourceHealth.Down(err)
		return nil, fmt.Errorf("route %q: subscribe to %s: %w", r.plan.Name, r.plan.From, err)
	}
	w, err := message.NewRouter(message.RouterConfig{CloseTimeout: r.shutdown + grace}, watermillLogger{r.logger})
	if err != nil {
		return nil, err
	}
	w.AddMiddleware(links...)
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

// close closes what build made and nobody runs yet.
func (p *parts) close() error {
	var errs []error
	if p.subscriber != nil {
		errs = append(errs, p.subscriber.Close())
	}
	if p.publisher != nil {
		errs = append(errs, p.publisher.Close())
	}
	return errors.Join(append(errs, p.closeMiddleware())...)
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
