package rabbitmq

// ForPoison gives the options of a queue that messages are parked in: a classic one, whatever the virtual host's default is. Others cannot be looked through; see Browse.
func (c DestinationConfig) ForPoison() DestinationConfig {
	c.QueueType = Classic
	return c
}
