package rabbitmq

// For the tests of what a frame holds.
var HeaderSize = headerSize
