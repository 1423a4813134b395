// Package link puts a controllable TCP link in front of a server, for tests and benchmarks: it adds latency and a
// bandwidth, it can be cut, it can fall silent without a reset, and it can be healed again.
//
// A client that connects to [Link.Address] talks to the server behind it. The bytes of one direction of a connection
// keep their order whatever is changed meanwhile. Setting up a connection is not delayed, only its bytes are.
package link
