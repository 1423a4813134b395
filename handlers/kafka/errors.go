package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mqferry/mqferry/handlers"
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

// classify gives the error of a produced record its class, as far as it is the whole partition's and not a batch's.
func classify(err error) error {
	switch {
	case isMissing(err):
		return handlers.Unroutable(err)
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return handlers.Full(err)
	default: // Also rights, which an administrator grants sooner or later: nothing is parked for them.
		return handlers.Unavailable(err)
	}
}
