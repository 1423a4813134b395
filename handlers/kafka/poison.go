package kafka

// poisonBytes is max.message.bytes of a poison topic that is created: many times Kafka's default, since what is parked has more headers than it came with, and is
// often parked for its size. Hosted clusters allow no more than this.
const poisonBytes = "8388608"

// ForPoison gives the options that a poison topic is made with. It is compacted, so that a message is taken out by a tombstone on its key; a message that is parked again,
// since it was redelivered, takes the place of its earlier copy. It has one partition, so that it is listed and replayed in the order of parking. Where it was
// made with several, all of a lane's messages go to the same one: they stay in order, and a message finds its earlier copy.
func (c DestinationConfig) ForPoison() DestinationConfig {
	c.Partitions, c.Partition = 1, PartitionSpread
	c.TopicConfig = map[string]string{"cleanup.policy": "compact", "max.message.bytes": poisonBytes}
	return c
}
