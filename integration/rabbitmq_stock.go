package integration

import "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"

// stock is how watermill-amqp reads and writes messages.
type stock = amqp.DefaultMarshaler
