// Package demo shows mqferry at work with nothing installed: two data centers in this process that speak the real protocols on real ports, a slow
// link between them that goes dead for a moment, a stream of orders produced in the one and consumed in the other, and the count of what arrived.
//
// The producer and the consumer are plain applications of their own broker, and know nothing of mqferry; the router is the ordinary one, from a
// configuration that is printed.
package demo
