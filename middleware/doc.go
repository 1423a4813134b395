// Package middleware has the links of a route's chain, one file each. Each is an ordinary Watermill message.HandlerMiddleware; in which order they
// run is decided in one place, the chain of package router.
package middleware
