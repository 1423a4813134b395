// Command mqferry carries messages between the message queues of different data centers; "mqferry help" tells how.
//
// A binary with a broker of your own is a copy of this file in a module of your own, with one option more:
//
//	os.Exit(command.Run(ctx, os.Args[1:], router.WithBroker("nats", handlers.NewBroker(nats.DefaultConfig, nats.Open))))
//
// "nats: {…}" below a data center in the config file is then decoded strictly into what nats.DefaultConfig returns, like any built-in broker.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mqferry/mqferry/router/command"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals // Who asks twice does not want to wait for what is in flight.
		fmt.Fprintln(os.Stderr, "mqferry: ended at once by a second signal: what was in flight will be delivered again")
		os.Exit(1)
	}()
	os.Exit(command.Run(ctx, os.Args[1:]))
}
