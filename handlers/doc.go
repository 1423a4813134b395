// Package handlers is the vocabulary of a route's two ends, and the relay between them.
//
// A [Broker] opens a [Connection] for a data center; that makes a Watermill subscriber for each [Source] and a Watermill publisher for each
// [Destination]. A broker that wants the full width of the link implements a [Reader] and returns [NewSubscriber] of it, and takes
// the [Turn] of each message in its publisher:
//
//	err := turn.Send(func() { buffer.append(msg, turn.Done) }) // in order, never blocks
//	if err != nil {
//		return err
//	}
//	return turn.Wait()
//
// A plain Watermill subscriber or publisher works too: slower, since it has one message of a lane in flight, but as safely.
//
// Errors have classes ([Unavailable], [Refused], [Full], [Unroutable], [Permanent], [Cancelled]) that decide what happens to a message;
// they are found with errors.As, never by text.
package handlers
