package rabbitmq

import (
	"net"
	"time"
)

// SetResend changes the pause before a message that was nacked comes again from a stock subscriber of conn, a Connection.
func SetResend(conn any, d time.Duration) {
	if c, ok := conn.(*stockConnection); ok {
		c.resend = d
	}
}

// Returned reads all that comes over conn, and tells whether a message with that routing key was returned.
func Returned(conn net.Conn, key string) bool {
	r := newReturns(conn)
	for piece := make([]byte, 1); ; {
		if _, err := r.Read(piece); err != nil {
			return r.since(0, key)
		}
	}
}
