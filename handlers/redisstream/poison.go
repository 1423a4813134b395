package redisstream

import "github.com/mqferry/mqferry/config"

// ForPoison gives the options of a stream that messages are parked in: it is never trimmed.
func (c DestinationConfig) ForPoison() DestinationConfig {
	c.MaxLength = 0
	return c
}

// CheckPoison reports a limit over which parked messages would be lost.
func (c DestinationConfig) CheckPoison() error {
	if c.MaxLength > 0 {
		return config.Invalid("max_length", "would trim parked messages away; leave it out of poison")
	}
	return nil
}
