// Command bench measures how many messages per second cross between two brokers on this machine, without delay and with a round trip of 50 ms to
// the destination: mqferry beside MirrorMaker 2 and beside a plain pump. All relays go through the same link in the same run; compare within one
// run only. It needs what integration/brokers/install.sh installs.
//
//	go run ./integration/bench            # some five minutes
//	go run ./integration/bench --quick    # fewer messages, no figures to quote
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	options := options{size: 1024}
	quick := flag.Bool("quick", false, "fewer messages: to see that it works")
	flag.DurationVar(&options.rtt, "rtt", 50*time.Millisecond, "the round trip to the destination, beside 0")
	flag.StringVar(&options.only, "only", "", `measure only relays whose pair or name contains this, such as "Redis" or "mqferry"`)
	flag.Parse()
	options.messages, options.patience = 400_000, 20*time.Second
	if *quick {
		options.messages, options.patience = 100_000, 5*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what is measured.
type options struct {
	messages int
	size     int           // Bytes of a payload, half of which cannot be compressed.
	rtt      time.Duration // To the destination.
	patience time.Duration // How long a slow relay is measured at most.
	only     string
}

func (o options) wants(pair, relay string) bool {
	return strings.Contains(pair+" "+relay, o.only)
}

// row is one relay's line of the table: its rates in messages per second, without and with the delay.
type row struct {
	pair, relay string
	rates       [2]float64
}

func run(ctx context.Context, o options) error {
	var rows []row
	for _, measure := range []func(context.Context, options) ([]row, error){kafkaToKafka, redisToRedis} {
		more, err := measure(ctx, o)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	fmt.Printf("\n| pair | relay | RTT 0 | %v to the destination |\n|---|---|---|---|\n", o.rtt)
	for _, r := range rows {
		fmt.Printf("| %s | %s | %.0f | %.0f |\n", r.pair, r.relay, r.rates[0], r.rates[1])
	}
	return nil
}
