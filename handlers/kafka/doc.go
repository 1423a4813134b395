// Package kafka connects routes to Kafka through franz-go.
//
// A source is a member of a consumer group: each assigned partition is a lane, and what is committed is the settled prefix. A destination
// is an idempotent producer with thousands of records in flight: each partition of it is a failure domain, since Kafka answers
// for whole batches. Read publisher.go first, then domain.go and search.go; on the other side subscriber.go, then group.go.
package kafka
