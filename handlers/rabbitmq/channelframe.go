package rabbitmq

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// frameOverhead is what a content header frame has beside the properties: 8 bytes around every frame; class, weight, body size and flags.
const frameOverhead = 8 + 2 + 2 + 8 + 2

// headerSize gives the bytes of the frame that holds the properties and headers, or what the client cannot write.
func headerSize(p *amqp.Publishing) (int64, error) {
	size := int64(frameOverhead)
	for _, text := range [...]string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId,
	} {
		if len(text) > maxShort {
			return 0, fmt.Errorf("a property of %d bytes, AMQP allows %d", len(text), maxShort)
		}
		if text != "" {
			size += 1 + int64(len(text))
		}
	}
	if p.DeliveryMode > 0 {
		size++
	}
	if p.Priority > 0 {
		size++
	}
	if !p.Timestamp.IsZero() {
		size += 8
	}
	if len(p.Headers) == 0 {
		return size, nil
	}
	table, err := tableSize(p.Headers)
	return size + table, err
}

func tableSize(table amqp.Table) (int64, error) {
	size := int64(4)
	for name, field := range table {
		if len(name) > maxShort {
			return 0, fmt.Errorf("a header's name of %d bytes, AMQP allows %d", len(name), maxShort)
		}
		n, err := fieldSize(field)
		if err != nil {
			return 0, fmt.Errorf("header %q: %w", name, err)
		}
		size += 1 + int64(len(name)) + n
	}
	return size, nil
}

// fieldSize gives the bytes of a value, with the one for its type.
func fieldSize(field any) (int64, error) {
	switch v := field.(type) {
	case nil:
		return 1, nil
	case bool, byte, int8:
		return 2, nil
	case int16, uint16:
		return 3, nil
	case int32, uint32, float32, int:
		return 5, nil
	case amqp.Decimal:
		return 6, nil
	case int64, float64, time.Time:
		return 9, nil
	case string:
		return 5 + int64(len(v)), nil
	case []byte:
		return 5 + int64(len(v)), nil
	case amqp.Table:
		size, err := tableSize(v)
		return 1 + size, err
	case []any:
		size := int64(5)
		for i := range v {
			n, err := fieldSize(v[i])
			if err != nil {
				return 0, err
			}
			size += n
		}
		return size, nil
	}
	return 0, fmt.Errorf("a value of type %T cannot be written", field)
}
