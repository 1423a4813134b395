package rabbitmq

import "github.com/mqferry/mqferry/config"

// ForPoison gives the options of a queue that messages are parked in: a classic one, whatever the virtual host's default is. Others cannot be looked through; see Browse.
func (c DestinationConfig) ForPoison() DestinationConfig {
	c.QueueType = Classic
	return c
}

// CheckPoison reports a queue that could not be looked through.
func (c DestinationConfig) CheckPoison() error {
	if c.QueueType != Classic {
		return config.Invalid("queue_type", "%s counts each look at a message as a delivery; leave it out of poison for a classic queue", c.QueueType)
	}
	return nil
}
