package handlers

import (
	"context"
	"errors"
)

// Class says what kind of failure an error is, and with that what happens to the message: see the functions of the same names.
type Class uint8

// The classes.
const (
	Unclassified Class = iota
	ClassUnavailable
	ClassRefused
	ClassFull
	ClassUnroutable
	ClassPermanent
	ClassCancelled
)

// String names the class as logs and metrics do.
func (c Class) String() string {
	switch c {
	case ClassUnavailable:
		return "unavailable"
	case ClassRefused:
		return "refused"
	case ClassFull:
		return "full"
	case ClassUnroutable:
		return "unroutable"
	case ClassPermanent:
		return "permanent"
	case ClassCancelled:
		return "cancelled"
	default:
		return "unclassified"
	}
}

// classified is an error with a class. It reads as the error it wraps.
type classified struct {
	class Class
	err   error
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// Is makes a cancelled error a context.Canceled too: that is how a Watermill router knows a shutdown from a failure.
func (e *classified) Is(target error) bool {
	return e.class == ClassCancelled && target == context.Canceled
}

func classify(c Class, err error) error {
	if err == nil {
		return nil
	}
	return &classified{class: c, err: err}
}

// Unavailable marks err as a failure on the way: the broker or a service is down, a deadline passed, the outcome is unknown. The lane
// holds and tries again for ever; the message is never parked for it. A nil err stays nil, here and in the other functions.
func Unavailable(err error) error { return classify(ClassUnavailable, err) }

// Refused marks err as the destination's no to this message now: it is tried again a number of times.
func Refused(err error) error { return classify(ClassRefused, err) }

// Full marks err as a no for want of room (queue full, out of memory, not enough replicas): the lane holds until there is some.
func Full(err error) error { return classify(ClassFull, err) }

// Unroutable marks err as a no because there is no such place: the lane holds until there is.
func Unroutable(err error) error { return classify(ClassUnroutable, err) }

// Permanent marks err as a failure of the message itself that no repetition can cure.
func Permanent(err error) error { return classify(ClassPermanent, err) }

// Cancelled marks err as the end of the lane, not of the message: it is neither tried again nor parked nor acked.
func Cancelled(err error) error { return classify(ClassCancelled, err) }

// ClassOf tells the class of err: that of the outermost classified error in its chain, or Unclassified.
func ClassOf(err error) Class {
	var c *classified
	if errors.As(err, &c) {
		return c.class
	}
	return Unclassified
}
