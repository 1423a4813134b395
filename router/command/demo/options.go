package demo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mqferry/mqferry/integration/ledger"
)

// maxRate is more than the brokers of the demo can take on any machine.
const maxRate = 1_000_000

// Options says what the demo is to do.
type Options struct {
	For      time.Duration  // How long to produce; 0 means until the context ends.
	Rate     int            // Orders per second, at least 1.
	Admin    string         // host:port of the admin pages; port 0 means any free one.
	Out      io.Writer      // Where to tell about it.
	Terminal bool           // Whether Out is a terminal: the line of progress is then rewritten in place.
	Ledger   *ledger.Ledger // Where to count; nil means a new one.
}

// Validate reports what cannot be done.
func (o Options) Validate() error {
	if o.For < 0 {
		return fmt.Errorf("--for %v is negative; write for example 10s, or 0 for until Ctrl-C", o.For)
	}
	if o.Rate < 1 || o.Rate > maxRate {
		return fmt.Errorf("--rate %d is not between 1 and %d orders per second", o.Rate, maxRate)
	}
	if _, _, err := net.SplitHostPort(o.Admin); err != nil {
		return fmt.Errorf("--admin %q is not host:port; write for example 127.0.0.1:8080", o.Admin)
	}
	if o.Out == nil {
		return errors.New("there is nowhere to write to")
	}
	return nil
}
