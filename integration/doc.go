// Package integration is the harness for the tests in this folder, which prove the promises of the product from outside: they
// run the real program between real brokers, break what they like, and compare what arrived with what was sent.
//
// A test makes two ends, a route between them, and a ferry that carries it:
//
//	from := integration.NewKafka(t, "shanghai", brokers.Kafka(t, "a"), 4)
//	to := integration.NewRedis(t, "virginia", brokers.Redis(t, "a"))
//	route := integration.NewRoute(from, to)
//	route.Send(t, 10_000)
//	ferry := integration.Run(t, integration.Config("defaults: {window: 1000}", route))
//	route.WaitAcked(t, time.Minute)
//	ferry.Stop(t, 10*time.Second)
//	route.WantExactlyOnce(t)
//
// The messages are made to be hard to carry: repeated, empty and null headers, binary keys, nulls, ids on some of them only, entries of any
// fields; each is compared in full.
package integration
