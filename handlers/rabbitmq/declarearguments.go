package rabbitmq

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/config"
)

// typeArgument is how a queue's type is declared.
const typeArgument = "x-queue-type"

// queueArguments gives what a queue is declared with, when it was checked before: nil when there is nothing.
func queueArguments(t QueueType, given map[string]any) amqp.Table {
	table, _ := parseArguments(t, given)
	return table
}

// parseArguments is the same, and reports what is wrong.
func parseArguments(t QueueType, given map[string]any) (amqp.Table, error) {
	table := make(amqp.Table, len(given)+1)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, err := argument(given[name])
		if err == nil && len(name) > maxShort {
			err = fmt.Errorf("its name has %d bytes, AMQP allows %d", len(name), maxShort)
		}
		if err != nil {
			errs = append(errs, config.Invalid("queue_arguments", "%.40q %w", name, err))
		}
		table[name] = field
	}
	if kind, is := table[typeArgument]; is {
		errs = append(errs, checkTypeArgument(t, kind))
	}
	if t != "" {
		table[typeArgument] = string(t)
	}
	if len(table) == 0 {
		table = nil
	}
	return table, errors.Join(errs...)
}

func checkTypeArgument(t QueueType, kind any) error {
	text, _ := kind.(string)
	switch err := QueueType(text).check(); {
	case text == "" || err != nil:
		return config.Invalid("queue_arguments", "%s is %v, which is not one of classic, quorum; streams are not supported", typeArgument, kind)
	case t != "" && t != QueueType(text):
		return config.Invalid("queue_arguments", "%s is %s and queue_type is %s; leave one of them out", typeArgument, text, t)
	}
	return nil
}

// argument gives a value from a YAML file as AMQP can write it.
func argument(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, int64, float64, string, time.Time:
		return v, nil
	case int:
		return int64(v), nil
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("is %d, which is too large", v)
		}
		return int64(v), nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = argument(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		table := make(amqp.Table, len(v))
		for name := range v {
			var err error
			if table[name], err = argument(v[name]); err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
		}
		return table, nil
	}
	return nil, fmt.Errorf("is a %T, which AMQP has no type for", value)
}
