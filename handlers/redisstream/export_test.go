package redisstream

import "time"

// SetPingInterval sets how often the publishers that a Connection makes from now on look after an idle server.
func SetPingInterval(opened any, d time.Duration) { opened.(*connection).interval = d }
