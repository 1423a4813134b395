package router

import (
	"context"
	"errors"
	"fmt"
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

// assembly is one route's moving parts.
type assembly struct {
	publisher  message.Publisher
	subscriber message.Subscriber
	watermill  *message.Router
}

// build makes the parts of a route out of open connections, the publisher first. It does not start them, and closes what it made when it fails.
func (r *route) build(from, to handlers.Conn) (_ *assembly, err error) {
	source, destination := r.ends(from)
	a := &assembly{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.publisher, err = to.Publisher(destination, r.plan.destination); err != nil {
		r.destinationHealth.Down(err)
		return nil, fmt.Errorf("route %q: publisher of %s: %w", r.plan.Name, r.plan.To.DataCenter, err)
	}
	r.destinationHealth.Up()
	if a.subscriber, err = from.Subscriber(source, r.plan.source); err != nil {
		r.sourceHealth.Down(err)
		return nil, fmt.Errorf("route %q: subscriber of %s: %w", r.plan.Name, r.plan.From.DataCenter, err)
	}
	if a.watermill, err = r.watermill(a, destination); err != nil {
		return nil, fmt.Errorf("route %q: %w", r.plan.Name, err)
	}
	return a, nil
}

// ends describes both ends to their brokers.
func (r *route) ends(from handlers.Conn) (handlers.Source, handlers.Destination) {
	p := r.plan
	source := handlers.Source{
		Route: p.Name, DataCenter: p.From.DataCenter, Topic: p.From.Topic, Group: p.From.Group, Start: p.From.Start,
		Window: p.Window, Strict: p.Order == config.OrderStrict, Bytes: int64(p.WindowBytes), Budget: r.budget,
		Logger: r.logger, Meter: r.meter, Health: r.sourceHealth,
	}
	destination := handlers.Destination{
		Route: p.Name, DataCenter: p.To.DataCenter, Topic: p.To.Topic, Window: p.Window, Bytes: int64(p.WindowBytes),
		Logger: r.logger, Meter: r.meter, Health: r.destinationHealth,
	}
	if partitioned, ok := from.Unwrap().(handlers.Partitioned); ok {
		destination.SourcePartitions = func(ctx context.Context) (int, error) { return partitioned.Partitions(ctx, p.From.Topic) }
	}
	return source, destination
}

// watermill makes the route's own Watermill router: the chain around the relay. Watermill never closes the publisher: the route does, last.
func (r *route) watermill(a *assembly, destination handlers.Destination) (*message.Router, error) {
	// Only a handler that never returns outlives the route's own deadline, and then the router may not wait much longer.
	w, err := message.NewRouter(message.RouterConfig{CloseTimeout: r.shutdown + 5*time.Second}, watermillLogger{r.logger})
	if err != nil {
		return nil, err
	}
	w.AddMiddleware(chain(middleware.Settings{Route: r.plan.Name, Logger: r.logger})...)
	_, lanes := a.subscriber.(laned)
	relay := handlers.NewRelay(destination, a.publisher, lanes)
	w.AddConsumerHandler(r.plan.Name, r.plan.From.Topic, a.subscriber, relay.Handle)
	return w, nil
}

// close closes what build made and nobody runs yet.
func (a *assembly) close() error {
	var errs []error
	if a.subscriber != nil {
		errs = append(errs, a.subscriber.Close())
	}
	if a.publisher != nil {
		errs = append(errs, a.publisher.Close())
	}
	return errors.Join(errs...)
}
