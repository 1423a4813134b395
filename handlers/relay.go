package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// Relay is the innermost handler of a route: it publishes each message at its turn, and waits for the confirm. It is safe
// for concurrent use, and runs for all messages in flight at once.
type Relay struct {
	destination Destination
	publisher   message.Publisher
	lanes       bool
	gates       []func(*message.Message) error
}

// errNoTicket is the mistake of a middleware that hands on something else than the message it was given.
var errNoTicket = errors.New("the message has lost its context: a middleware must change the message in place, or hand on msg.CopyWithContext()")

// NewRelay makes the relay of a route to destination. Lanes says that the route's subscriber gives each message a ticket: then a
// message without one is a permanent error, since its order and its ack would be lost. Gates are called for each message at its turn, before it
// is published; an error of theirs is what Handle returns.
func NewRelay(destination Destination, publisher message.Publisher, lanes bool, gates ...func(*message.Message) error) *Relay {
	return &Relay{destination: destination, publisher: publisher, lanes: lanes, gates: gates}
}

// pass asks the gates.
func (r *Relay) pass(msg *message.Message) error {
	for _, gate := range r.gates {
		if err := gate(msg); err != nil {
			return err
		}
	}
	return nil
}

// Handle returns nil when the destination has confirmed msg. While the destination is unavailable, full, or has no such
// place, it holds the message and tries again, for as long as the lane lives. It returns what the destination refused, and a
// cancelled error when the lane ended first.
func (r *Relay) Handle(msg *message.Message) error {
	it := itemOf(msg.Context())
	switch {
	case it == nil && r.lanes:
		return Permanent(errNoTicket)
	case it == nil:
		return r.plain(msg)
	}
	ticket := &it.ticket
	it.turn.giveUp = r.destination.GiveUp
	for {
		switch err := ticket.Enter(); {
		case errors.Is(err, lane.ErrSettled):
			return nil
		case err != nil:
			return Cancelled(err)
		}
		if err := r.pass(msg); err != nil {
			return err // The turn stays with the message until it is settled, or comes again.
		}
		err := r.publish(msg, &it.turn)
		outcome := outcomeOf(err, r.destination.GiveUp)
		ticket.Resolve(outcome) // A publisher that takes turns has said so already.
		if outcome != lane.Failed {
			return err
		}
	}
}

// plain handles a message of a subscriber that knows no lanes. It holds it as a lane would, until the subscriber ends its context: otherwise an
// outage of the destination would be a loop of nacks at the source.
func (r *Relay) plain(msg *message.Message) error {
	ctx := msg.Context()
	if err := r.pass(msg); err != nil {
		return err
	}
	err := r.publish(msg, nil)
	for n := 1; outcomeOf(err, r.destination.GiveUp) == lane.Failed; n++ {
		Pause(ctx, defaultBackoff().After(n))
		if ctx.Err() != nil {
			return Cancelled(fmt.Errorf("given up since its subscriber stops: %w", err))
		}
		err = r.publish(msg, nil)
	}
	return err
}

// topic gives the topic for msg.
func (r *Relay) topic(msg *message.Message) (string, error) {
	d := r.destination
	if d.Template == nil {
		return d.Topic, nil
	}
	topic, ok := d.Template.Fill(record.Outgoing(msg))
	if !ok || topic == "" {
		return "", Permanent(fmt.Errorf("the message lacks what the topic %q is to be filled with", d.Topic))
	}
	return topic, nil
}

// publish hands msg to the publisher with a context that nobody can cancel: in some clients one cancelled message takes its
// neighbours with it.
func (r *Relay) publish(msg *message.Message, turn *Turn) error {
	ctx := msg.Context()
	msg.SetContext(&publishing{ctx, turn})
	defer msg.SetContext(ctx)
	d := r.destination
	topic, err := r.topic(msg)
	if err == nil {
		err = r.publisher.Publish(topic, msg)
	}
	switch {
	case err == nil:
		d.Meter.Confirmed.Add(1)
		d.Health.Up()
		return nil
	case errors.Is(err, ErrTurnLost):
		return err
	}
	err = fmt.Errorf("publish to %s/%s: %w", d.DataCenter, cmp.Or(topic, d.Topic), err)
	switch ClassOf(err) {
	case ClassRefused, ClassPermanent:
		d.Meter.Refused.Add(1)
	case ClassFull, ClassUnroutable:
		d.Meter.Refused.Add(1)
		d.Health.Down(err)
	default:
		d.Meter.Failed.Add(1)
		d.Health.Down(err)
	}
	return err
}

// publishing is the context of a message that is being published: it has the message's turn, and nobody can cancel it.
type publishing struct {
	context.Context
	turn *Turn // Nil where there are no lanes.
}

func (*publishing) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*publishing) Done() <-chan struct{}                   { return nil }
func (*publishing) Err() error                              { return nil }

func (p *publishing) Value(key any) any {
	if key == (turnKey{}) && p.turn != nil {
		return p.turn
	}
	return p.Context.Value(key)
}
