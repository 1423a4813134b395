// Package ledger is the book-keeping of a promise: what was produced against what arrived. It finds every message that is
// lost, damaged, unknown, repeated or out of order, names the first few, and needs about one bit a message once it has
// arrived.
//
// The producing side numbers the messages of each lane from 0 and enters each with [Ledger.Produced], before or after it is sent; the consuming side
// enters what it got with [Ledger.Arrived], in order. Both give a fingerprint of the content, any hash that both can make.
package ledger
