package middleware

import (
	"errors"

	"github.com/mqferry/mqferry/handlers"
)

// dropped is the error of a message that was dropped on purpose.
type dropped struct {
	reason string
	as     handlers.Ending
}

func (d *dropped) Error() string { return "dropped: " + d.reason }

// Drop is what a middleware returns for a message that is not to be delivered: it is acked at its source and counted as filtered, never tried again and never
// parked. The reason is for whoever reads the error in a test or in another middleware; it is not logged for each message.
func Drop(reason string) error { return &dropped{reason: reason, as: handlers.Filtered} }

// Dropped tells whether err comes from Drop, and why the message was dropped.
func Dropped(err error) (reason string, ok bool) {
	var d *dropped
	if errors.As(err, &d) {
		return d.reason, true
	}
	return "", false
}
