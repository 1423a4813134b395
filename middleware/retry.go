package middleware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// RetryConfig says how often a refused message is tried again.
type RetryConfig struct {
	// MaxAttempts is after how many attempts a message that is refused each time is given up; 10 by default, 0 never gives up. A broker or a service that
	// is unavailable is waited for without counting.
	MaxAttempts int `yaml:"max_attempts"`
	// InitialInterval is the pause after the first attempt; 100ms by default.
	InitialInterval config.Duration `yaml:"initial_interval"`
	// MaxInterval is the longest pause; 30s by default.
	MaxInterval config.Duration `yaml:"max_interval"`
	// Multiplier is how many times longer each pause is than the one before; 2 by default.
	Multiplier float64 `yaml:"multiplier"`
	// Jitter is the part of a pause, from 0 to 1, that is left to chance, so that not all come back at once; 0.5 by default.
	Jitter float64 `yaml:"jitter"`
}

// DefaultRetry is what applies where a file says nothing.
func DefaultRetry() RetryConfig {
	return RetryConfig{
		MaxAttempts: 10, InitialInterval: config.Duration(100 * time.Millisecond), MaxInterval: config.Duration(30 * time.Second),
		Multiplier: 2, Jitter: 0.5,
	}
}

// Validate reports numbers out of range.
func (c RetryConfig) Validate() error {
	var errs []error
	if c.MaxAttempts < 0 {
		errs = append(errs, config.Invalid("max_attempts", "%d is negative; 0 never gives up", c.MaxAttempts))
	}
	if c.InitialInterval <= 0 {
		errs = append(errs, config.Invalid("initial_interval", "must be more than 0"))
	}
	if c.MaxInterval < c.InitialInterval {
		errs = append(errs, config.Invalid("max_interval", "%s is less than the initial_interval of %s", c.MaxInterval, c.InitialInterval))
	}
	if !(c.Multiplier >= 1) || math.IsInf(c.Multiplier, 0) {
		errs = append(errs, config.Invalid("multiplier", "%v is less than 1", c.Multiplier))
	}
	if !(c.Jitter >= 0 && c.Jitter <= 1) {
		errs = append(errs, config.Invalid("jitter", "%v is not between 0 and 1", c.Jitter))
	}
	return errors.Join(errs...)
}

// after gives the pause after the n-th attempt, counted from 1.
func (c RetryConfig) after(n int) time.Duration {
	d := min(float64(c.InitialInterval)*math.Pow(c.Multiplier, float64(n-1)), float64(c.MaxInterval))
	return time.Duration(d * (1 - c.Jitter*rand.Float64())) //nolint:gosec // Chance, not secrecy.
}

// Failure is the error of a message that Retry gave up, or was told not to try again.
type Failure struct {
	Err         error // Of the last attempt.
	Attempts    int
	First, Last time.Time // When the first and the last attempt failed.
}

// Error tells how often it was tried, and the last error.
func (f *Failure) Error() string {
	if f.Attempts == 1 {
		return f.Err.Error()
	}
	return fmt.Sprintf("%d attempts, the last: %v", f.Attempts, f.Err)
}

// Unwrap gives the error of the last attempt.
func (f *Failure) Unwrap() error { return f.Err }

// Retry runs what is further in again for a message that was refused, each time with the message as it was at first. Watermill's own is not
// used: it counts outages as attempts, tries again what never can work and what was dropped on purpose, leaves in the message what the failed attempt
// changed, and sleeps through the stop of a lane.
func Retry(c RetryConfig, s Settings) message.HandlerMiddleware {
	s = s.complete()
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			original := snapshotOf(msg)
			var f Failure
			for outages := 0; ; {
				produced, err := next(msg)
				if err == nil || isOver(msg, err) {
					return produced, err
				}
				f.note(err)
				class := handlers.ClassOf(err)
				pause := c.after(min(f.Attempts, math.MaxInt16))
				if class == handlers.ClassUnavailable {
					f.Attempts--
					outages++
					pause = c.after(min(outages, math.MaxInt16))
					s.Health.Refused(err)
				} else if class == handlers.ClassPermanent || c.MaxAttempts > 0 && f.Attempts >= c.MaxAttempts {
					return nil, &f
				}
				if !wait(msg, pause) {
					return nil, handlers.Cancelled(&f)
				}
				original.restore(msg)
			}
		}
	}
}

func (f *Failure) note(err error) {
	f.Last = time.Now()
	if f.First.IsZero() {
		f.First = f.Last
	}
	f.Err = err
	f.Attempts++
}

// isOver reports whether there is nothing more to do about a message for which the chain returned err: it was dropped, its lane has ended, or its ticket is settled.
func isOver(msg *message.Message, err error) bool {
	if _, filtered := Dropped(err); filtered || handlers.ClassOf(err) == handlers.ClassCancelled {
		return true
	}
	t := handlers.Ticket(msg)
	return t != nil && (t.Outcome() != lane.Unsettled || t.Cancelled())
}

// wait lets time pass. It reports false when the message is of no use any more: its lane has lost it, or its subscriber has.
func wait(msg *message.Message, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	ticket := handlers.Ticket(msg)
	var ending <-chan struct{}
	if ticket != nil {
		ending = ticket.Lane().Ending()
	}
	for {
		select {
		case <-timer.C:
			return true
		case <-msg.Context().Done():
			return false
		case <-ending:
			if ticket.Cancelled() {
				return false
			}
			ending = nil // A stop, and this message goes on to its end. The loss of the lane ends its context.
		}
	}
}

// snapshot is a message as it came. One with a record needs no copy: the record is what it was.
type snapshot struct {
	context  context.Context
	record   *record.Record
	id       string
	payload  message.Payload
	metadata message.Metadata
}

func snapshotOf(msg *message.Message) snapshot {
	ctx := msg.Context()
	if r := record.From(ctx); r != nil {
		return snapshot{context: ctx, record: r}
	}
	return snapshot{context: ctx, id: msg.UUID, payload: msg.Payload, metadata: maps.Clone(msg.Metadata)}
}

// restore makes msg what it was.
func (o snapshot) restore(msg *message.Message) {
	msg.SetContext(o.context)
	if o.record != nil {
		msg.UUID, msg.Payload, msg.Metadata = o.record.ID, o.record.Value, record.Metadata(o.record)
		return
	}
	msg.UUID, msg.Payload, msg.Metadata = o.id, o.payload, maps.Clone(o.metadata)
}
