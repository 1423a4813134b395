package redisstream

// ForPoison gives the options of a stream that messages are parked in: it is never trimmed.
func (c DestinationConfig) ForPoison() DestinationConfig {
	c.MaxLength = 0
	return c
}
