package kafka

// For the test of what a record is.
var (
	FromKafka = fromKafka
	ToKafka   = toKafka
)
