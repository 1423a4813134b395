// Package rabbitmq carries messages from and to RabbitMQ over AMQP 0.9.1, pipelined: a source's window is prefetched and acked by its settled
// prefix, and a destination's messages are on the wire by the thousand while their confirms come back.
package rabbitmq
