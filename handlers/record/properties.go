package record

// The headers in which the properties of a RabbitMQ message are declared. An application may set the first group on
// Kafka or Redis to give its message the property; a value that the property cannot hold stays an ordinary header.
const (
	// ContentTypeEntry holds the property content-type.
	ContentTypeEntry = "mqferry_content_type"
	// ContentEncodingEntry holds the property content-encoding.
	ContentEncodingEntry = "mqferry_content_encoding"
	// PriorityEntry holds the property priority, 1 to 255; 0 is the same as none.
	PriorityEntry = "mqferry_priority"
	// CorrelationIDEntry holds the property correlation-id.
	CorrelationIDEntry = "mqferry_correlation_id"
	// ReplyToEntry holds the property reply-to.
	ReplyToEntry = "mqferry_reply_to"
	// ExpirationEntry holds the property expiration, in milliseconds.
	ExpirationEntry = "mqferry_expiration"
	// TypeEntry holds the property type.
	TypeEntry = "mqferry_type"
	// AppIDEntry holds the property app-id.
	AppIDEntry = "mqferry_app_id"
	// MessageIDEntry holds the property message-id where it does not stand for the same as the header IDKey: its value if the
	// message had no such header or a different one, and empty if the message had only the header.
	MessageIDEntry = "mqferry_message_id"
	// TimestampEntry is empty for a message that had no timestamp, and holds the Unix seconds of one that no other
	// broker can hold: a negative one, or one after the year 292 million. All others are the record's Time.
	TimestampEntry = "mqferry_timestamp"

	// ExchangeEntry holds the exchange that the message was published to, unless it was the default one. Like
	// RoutingKeyEntry it is for reading only: at a destination the route decides.
	ExchangeEntry = "mqferry_exchange"

	// UserIDEntry holds the property user-id. It stays a header, since RabbitMQ takes only the publisher's own.
	UserIDEntry = "mqferry_user_id"
	// DeliveryModeEntry is "1" for a transient message. It stays a header: what is relayed is persistent.
	DeliveryModeEntry = "mqferry_delivery_mode"
	// CCEntry holds the header CC. It stays under this name, since CC copies a message into other queues.
	CCEntry = "mqferry_cc"
	// BCCEntry holds the header BCC, as CCEntry does CC.
	BCCEntry = "mqferry_bcc"
)
