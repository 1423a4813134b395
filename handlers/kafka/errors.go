package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// isMissing reports whether the cluster says that a topic is not there, or not any more.
func isMissing(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// isBatchError reports whether Kafka refused a batch for something that is in one of its records.
func isBatchError(err error) bool {
	return isTooLarge(err) ||
		errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.InvalidTimestamp) ||
		errors.Is(err, kerr.CorruptMessage) ||
		errors.Is(err, kerr.PolicyViolation)
}

// isTooLarge reports whether a batch was too large for the topic, or for a segment of it.
func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// isRecalled reports whether the client gave a record back because an earlier one failed: it was not sent.
func isRecalled(err error) bool { return errors.Is(err, context.Canceled) }
