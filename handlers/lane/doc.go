// Package lane keeps an ordered sub-stream in order while thousands of its messages are in flight.
//
// A [Lane] is a Kafka partition, a RabbitMQ queue, a Redis stream: whatever its source delivers in order. Each message of it
// is given a [Ticket] in the order in which it was fetched. A ticket is waiting, pending (handed to the publisher, outcome unknown)
// or settled (confirmed, dropped on purpose, parked), and these rules hold whatever happens:
//
//   - Tickets are handed to the publisher in order: [Ticket.Enter] returns when every lower ticket is settled or pending in
//     the lane's current generation, and [Ticket.Enqueue] fails when that generation ended in between.
//   - A failure on the way ends the generation. What is pending resolves first; then one ticket at a time is sent, a probe,
//     after a pause that grows; the first that is confirmed opens the full width again.
//   - While a refused ticket is not settled, no higher one is sent.
//   - What may be acked at the source is the settled prefix, [Lane.Settled], never past a gap.
//   - The window reaches from the committed prefix to the highest ticket given out, in messages and, through a [Budget], in bytes.
//
// The package does no I/O and knows outcomes, not errors. All of it is safe for concurrent use.
package lane
