package redisstream

import "time"

// SetPingInterval sets how often the publishers that a Connection makes from now on look after an idle server.
func SetPingInterval(opened any, d time.Duration) { opened.(*connection).interval = d }

// SetResend sets the pause before the stock subscribers that a Connection makes from now on emit a nacked message again.
func SetResend(opened any, d time.Duration) { opened.(*connection).resend = d }
