package middleware

import "github.com/ThreeDotsLabs/watermill/message"

// chainDepth is the stack that a chain needs at least, in bytes, beyond what a new goroutine has.
const chainDepth = 1536

// Stack goes before the whole chain: it lets the goroutine's stack grow while there is next to nothing on it. A Watermill router starts a goroutine
// for each message, whose stack would otherwise be copied with all of the chain's frames on it: a tenth of the time of a message (BenchmarkChain).
func Stack(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		grow(0)
		return next(msg)
	}
}

// grow needs chainDepth bytes of stack, and gives them back.
//
//go:noinline
func grow(i int) byte {
	var space [chainDepth]byte
	return space[i]
}
