package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// pollInterval is how often the destination is asked how much it has.
const pollInterval = 20 * time.Millisecond

// relay is something that moves messages from a source topic into a fresh destination topic until it is stopped.
type relay struct {
	name string
	// start begins to move, and returns how to count what has arrived, and how to stop.
	start func(run string) (arrived func() (int, error), stop func(), err error)
}

// rate runs a relay and measures its pace between the first tenth of the messages and the last: what comes before is its start, what comes after its end. A
// relay that is too slow for all of them is measured for as long as patience lasts.
func (o options) rate(ctx context.Context, r relay, run string) (float64, error) {
	arrived, stop, err := r.start(run)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.name, err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+o.patience)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var begin, first time.Time
	var before int
	for {
		n, err := arrived()
		now := time.Now()
		switch {
		case err != nil:
			return 0, fmt.Errorf("%s: count what has arrived: %w", r.name, err)
		case n > 0 && first.IsZero():
			first = now
		}
		if begin.IsZero() && (n >= o.messages/10 || n > 0 && now.Sub(first) > o.patience/4) {
			begin, before = now, n
		}
		if !begin.IsZero() && n > before && (n >= o.messages*95/100 || now.Sub(begin) > o.patience) {
			return float64(n-before) / now.Sub(begin).Seconds(), nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: %d of %d messages arrived: %w", r.name, n, o.messages, ctx.Err())
		}
	}
}

// measure runs every relay without and with the delay.
func (o options) measure(ctx context.Context, pair string, delay func(time.Duration), relays []relay) ([]row, error) {
	var rows []row
	for _, r := range relays {
		if !o.wants(pair, r.name) {
			continue
		}
		next := row{pair: pair, relay: r.name}
		for i, rtt := range []time.Duration{0, o.rtt} {
			delay(rtt)
			rate, err := o.rate(ctx, r, fmt.Sprintf("run%d%d", len(rows), i))
			if err != nil {
				return nil, err
			}
			fmt.Printf("%s, %s, RTT %v: %.0f msg/s\n", pair, r.name, rtt, rate)
			next.rates[i] = rate
		}
		rows = append(rows, next)
	}
	return rows, nil
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
