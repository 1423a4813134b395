package rabbitmq

// For the tests of what a message is.
var (
	FromDelivery = fromDelivery
	ToPublishing = toPublishing
	ParseJSON    = parseJSON
	AppendJSON   = appendJSON
)
