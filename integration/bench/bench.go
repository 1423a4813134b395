package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/integration/link"
)

// station is a kind of broker, and two of them once they are needed, with a link in front of the second.
type station struct {
	name  string
	start func() (*brokers.Broker, error)
	// site is how a config file reaches a broker at the address.
	site func(b *brokers.Broker, address string) string
	// fill puts the messages into the topic that is to be read.
	fill func(ctx context.Context, b *brokers.Broker, topic string, o options) error
	// eaten says that what was read is gone, so that every run needs a source of its own.
	eaten bool
	// count makes a counter of what a topic holds, which is 0 while there is none.
	count func(b *brokers.Broker) (counter, error)

	near, far *brokers.Broker
	link      *link.Link
	arrived   counter
	filled    bool
}

// counter counts what a topic holds.
type counter interface {
	count(ctx context.Context, topic string) (int, error)
	close()
}

// bench is one run of the program.
type bench struct {
	ctx      context.Context
	options  options
	workshop *workshop
	runs     int
	opened   []*station
}

func newBench(ctx context.Context, o options) (*bench, error) {
	w, err := newWorkshop()
	if err != nil {
		return nil, err
	}
	return &bench{ctx: ctx, options: o, workshop: w}, nil
}

func (b *bench) close() {
	for _, s := range b.opened {
		s.close()
	}
	b.workshop.remove()
}

// open starts the brokers of a station, if they do not run yet.
func (b *bench) open(s *station) (err error) {
	if s.near != nil {
		return nil
	}
	b.opened = append(b.opened, s)
	if s.near, err = s.start(); err != nil {
		return err
	}
	if s.far, err = s.start(); err != nil {
		return err
	}
	if s.link, err = s.far.NewLink(); err != nil {
		return err
	}
	s.arrived, err = s.count(s.far)
	return err
}

func (s *station) close() {
	if s.arrived != nil {
		s.arrived.close()
	}
	if s.link != nil {
		s.link.Close()
	}
	for _, b := range []*brokers.Broker{s.near, s.far} {
		if b != nil {
			b.Remove()
		}
	}
}

// source gives a topic with all messages in it.
func (b *bench) source(s *station) (topic string, err error) {
	topic = "bench"
	switch {
	case s.eaten:
		topic = fmt.Sprint("bench", b.runs)
	case s.filled:
		return topic, nil
	}
	s.filled = true
	if err := s.fill(b.ctx, s.near, topic, b.options); err != nil {
		return "", fmt.Errorf("fill %s: %w", s.name, err)
	}
	return topic, nil
}

// crossing is what a relay is to do: move what is in a topic of one broker to another's, through the link.
type crossing struct {
	from, to *station
	topic    string // Of the source.
	run      string // Of the destination, fresh, unless the relay has names of its own.
}

// relay is something that moves messages until it is stopped.
type relay struct {
	name  string
	start func(c crossing) (*moving, error)
	// arrives is the topic where it puts them, if not the crossing's.
	arrives func(c crossing) string
}

// moving is a relay that has been started. Stop ends it; ended, if it is there, says why it has ended by itself, and nothing as long as it runs.
type moving struct {
	stop  func()
	ended func() error
}

// measure runs a relay without and with the delay.
func (b *bench) measure(from, to *station, r relay) ([]row, error) {
	pair := from.name + "→" + to.name
	if !b.options.wants(pair, r.name) {
		return nil, nil
	}
	for _, s := range []*station{from, to} {
		if err := b.open(s); err != nil {
			return nil, err
		}
	}
	next := row{pair: pair, relay: r.name}
	for i, rtt := range []time.Duration{0, b.options.rtt} {
		to.link.Delay(rtt)
		b.runs++
		topic, err := b.source(from)
		if err != nil {
			return nil, err
		}
		rate, err := b.rate(r, crossing{from: from, to: to, topic: topic, run: fmt.Sprint("run", b.runs)})
		if b.ctx.Err() != nil {
			return nil, b.ctx.Err()
		}
		if err != nil { // One that does not work is shown as such, and the others go on.
			fmt.Printf("%s, %s, RTT %v: %v\n", pair, r.name, rtt, err)
			return []row{next}, nil
		}
		fmt.Printf("%s, %s, RTT %v: %s msg/s\n", pair, r.name, rtt, pace(rate))
		next.rates[i] = rate
	}
	return []row{next}, nil
}

// pollInterval is how often the destination is asked how much it has.
const pollInterval = 20 * time.Millisecond

// rate runs a relay and measures its pace between the first tenth of the messages and the last: what comes before is its start, what comes after its end. A
// relay that is too slow for all of them is measured for as long as patience lasts.
func (b *bench) rate(r relay, c crossing) (float64, error) {
	moving, err := r.start(c)
	if err != nil {
		return 0, err
	}
	defer moving.stop()
	arrives := c.run
	if r.arrives != nil {
		arrives = r.arrives(c)
	}
	patience, messages := b.options.patience, b.options.messages
	if c.from.eaten {
		messages /= 4
	}
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute+patience)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var begin, first time.Time
	var before int
	for {
		n, err := c.to.arrived.count(ctx, arrives)
		now := time.Now()
		switch {
		case err != nil:
			return 0, fmt.Errorf("count what has arrived: %w", err)
		case n > 0 && first.IsZero():
			first = now
		}
		if moving.ended != nil {
			if err := moving.ended(); err != nil {
				return 0, err
			}
		}
		if begin.IsZero() && (n >= messages/10 || n > 0 && now.Sub(first) > patience/4) {
			begin, before = now, n
		}
		if !begin.IsZero() && n > before && (n >= messages*95/100 || now.Sub(begin) > patience) {
			return float64(n-before) / now.Sub(begin).Seconds(), nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d messages arrived: %w", n, messages, ctx.Err())
		}
	}
}

// payload is half random, half zeros.
func payload(size int, seed uint64) []byte {
	p := make([]byte, size)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i+8 <= size/2; i += 8 {
		v := random.Uint64()
		for k := range 8 {
			p[i+k] = byte(v >> (8 * k))
		}
	}
	return p
}
