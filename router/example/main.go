// Command example is mqferry with a broker and a middleware of its own: a place to start from. The README in this folder tells how to run it, and
// how to make a program of your own of it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/middleware"
	"github.com/mqferry/mqferry/router"
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
	os.Exit(command.Run(ctx, os.Args[1:], options()...))
}

// options adds what is our own, under the names by which a config file calls it: "spool: {…}" is a data center, "stamp: {…}" is in a route's list of
// middleware. Each of both takes its default options and a constructor; what the file says is decoded strictly over the defaults.
func options() []router.Option {
	return []router.Option{
		router.WithBroker("spool", handlers.NewBroker(defaultSpool, openSpool)),
		router.WithMiddleware("stamp", middleware.New(defaultStamp, newStamp)),
	}
}
