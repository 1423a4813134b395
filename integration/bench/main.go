// Command bench measures how many messages per second cross between two brokers on this machine, without delay and with a round trip of 50 ms to
// the destination: mqferry from each kind of broker to each, beside MirrorMaker 2, Shovel, plain pumps, and the stock pub/subs of Watermill. All
// relays go through the same link in the same run; compare within one run only. It needs what integration/brokers/install.sh installs.
//
//	go run ./integration/bench            # some eight minutes
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
	flag.StringVar(&options.only, "only", "", `measure only relays whose pair or name contains this, such as "→Redis" or "mqferry"`)
	flag.Parse()
	options.messages, options.patience = 400_000, 15*time.Second
	if *quick {
		options.messages, options.patience = 60_000, 3*time.Second
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
	messages int           // In the source; a quarter of it in a RabbitMQ.
	size     int           // Bytes of a payload, half of which cannot be compressed.
	rtt      time.Duration // To the destination.
	patience time.Duration // How long a relay is measured at most.
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

func (r row) String() string {
	if r.rates[1] == 0 {
		return fmt.Sprintf("| %s | %s | – | – | – |", r.pair, r.relay)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.0f %% |", r.pair, r.relay, pace(r.rates[0]), pace(r.rates[1]), 100*r.rates[1]/r.rates[0])
}

func pace(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

func run(ctx context.Context, o options) error {
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	var rows []row
	kinds := []*station{kafkaStation(), rabbitmqStation(), redisStation()}
	for _, from := range kinds {
		for _, to := range kinds {
			for _, r := range b.relays(from, to) {
				next, err := b.measure(from, to, r)
				if err != nil {
					return err
				}
				rows = append(rows, next...)
			}
		}
	}
	fmt.Printf("\n| pair | relay | RTT 0 | %v to the destination | of RTT 0 |\n|---|---|---|---|---|\n", o.rtt)
	for _, r := range rows {
		fmt.Println(r)
	}
	return nil
}
