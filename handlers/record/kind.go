package record

import "strconv"

// The types that a header's value can have beside Bytes: those of AMQP 0.9.1. The Value is text that middleware can read;
// the package of the broker says how it is made.
const (
	// ByteArray is bytes that are not meant to be text.
	ByteArray Type = 1
	// Bool is "true" or "false".
	Bool Type = 2
	// Int8 is a decimal number, like the other integers.
	Int8 Type = 3
	// Uint8 is an unsigned number.
	Uint8 Type = 4
	// Int16 is a number.
	Int16 Type = 5
	// Uint16 is an unsigned number.
	Uint16 Type = 6
	// Int32 is a number.
	Int32 Type = 7
	// Uint32 is an unsigned number.
	Uint32 Type = 8
	// Int64 is a number.
	Int64 Type = 9
	// Uint64 is an unsigned number. RabbitMQ has no such field: there it is a string.
	Uint64 Type = 10
	// Float32 is the shortest number that reads as the same value.
	Float32 Type = 11
	// Float64 is the shortest number that reads as the same value.
	Float64 Type = 12
	// Decimal is a number with exactly as many digits after the point as its scale says.
	Decimal Type = 13
	// Timestamp is Unix seconds.
	Timestamp Type = 14
	// Table is JSON, an object.
	Table Type = 15
	// Array is JSON, an array.
	Array Type = 16
	// Void is no value at all; Value is nil.
	Void Type = 17
)

// String names the type in lower case, "int32"; one that is not known has its number.
func (t Type) String() string {
	names := [...]string{
		"bytes", "bytearray", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
		"float32", "float64", "decimal", "timestamp", "table", "array", "void",
	}
	if int(t) < len(names) {
		return names[t]
	}
	return "type " + strconv.Itoa(int(t))
}
