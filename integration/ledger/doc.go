// Package ledger is the book-keeping of a promise: what was produced against what arrived. It finds every message that is
// lost, damaged, unknown, repeated or out of order, names the first few, and needs about one bit a message once it has
// arrived.
//
// The producing side numbers its messages with [Ledger.Next] and enters each with [Ledger.Sent]; the consuming side parses
// what it got with [Parse] and enters it with [Ledger.Received]. Those who have messages of their own use
// [Ledger.Produced] and [Ledger.Arrived] with a fingerprint of their choice.
package ledger
