// Package command is mqferry's command line. It is all that a binary needs around a router; one with brokers of its own gives them to [Run]:
//
//	os.Exit(command.Run(ctx, os.Args[1:], router.WithBroker("nats", nats.Broker())))
//
// Every command ends with 0 when all is good, 1 when it failed while running, and 2 when the configuration or the way it was called is wrong.
package command
