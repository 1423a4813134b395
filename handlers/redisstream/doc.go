// Package redisstream carries messages from and to Redis Streams.
//
// A stream is one lane. The subscriber reads it through a consumer group, one instance at a time (a lease in Redis sees to that), takes
// over what an earlier reader left pending before it reads anything new, and acks the settled prefix. The publisher pipelines XADD on
// one connection for each source lane, and checks every reply. Entries have the format of watermill-redisstream; entries of any other shape
// are carried as they are.
package redisstream
