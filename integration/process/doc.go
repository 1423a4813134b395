// Package process runs programs as children of a test: real brokers, and the product itself. A child never outlives the
// test binary, in whatever way that ends, and only children are ever signalled.
package process
