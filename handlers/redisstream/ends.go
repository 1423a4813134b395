package redisstream

import (
	"errors"
	"strings"
	"time"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/record"
)

// The shortest lease, so that the renewals are not the load; and the most that a lease and a claim may take.
const (
	minLease = 100 * time.Millisecond
	maxIdle  = 24 * time.Hour
)

// Format is the shape of the entries that a destination gets.
type Format string

// The formats.
const (
	// WatermillFormat is that of watermill-redisstream: the fields _watermill_message_uuid, metadata and payload.
	WatermillFormat Format = "watermill"
	// FieldsFormat has the payload in one field and each header in a field of its own.
	FieldsFormat Format = "fields"
)

// SourceConfig is what a route may say about the stream that it reads.
type SourceConfig struct {
	// Consumer is the name in the group under which this instance reads; by default the instance's own name.
	Consumer string `yaml:"consumer"`
	// Lease is how long after the last sign of life of the instance that reads another one takes over; 5s by default. A process that was killed waits as long
	// when it is started again.
	Lease config.Duration `yaml:"lease"`
	// ClaimIdle is how long an entry of another consumer must have been untouched to count as abandoned; 60s by default. What
	// the instance left behind that had the lease before is taken over at once.
	ClaimIdle config.Duration `yaml:"claim_idle"`
}

// Validate reports lengths of time that would take entries from a reader that is alive.
func (c SourceConfig) Validate() error {
	var errs []error
	if d := time.Duration(c.Lease); d < minLease || d > maxIdle {
		errs = append(errs, config.Invalid("lease", `%s is not between %s and 24h; write for example "5s"`, c.Lease, config.Duration(minLease)))
	}
	if d := time.Duration(c.ClaimIdle); d < minLease || d > maxIdle {
		errs = append(errs, config.Invalid("claim_idle", `%s is not between %s and 24h; write for example "60s"`, c.ClaimIdle, config.Duration(minLease)))
	}
	return errors.Join(errs...)
}

// DestinationConfig is what a route may say about the stream that it writes.
type DestinationConfig struct {
	// Format is watermill, the default, or fields: the payload in one field and each header in a field of its own.
	Format Format `yaml:"format"`
	// PayloadField is the name of the field with the payload in the format fields; "payload" by default.
	PayloadField string `yaml:"payload_field"`
	// MaxLength trims the stream to about so many entries with each XADD; 0, the default, never trims.
	MaxLength int64 `yaml:"max_length"`
	// WaitReplicas is how many replicas must have a message before it counts as confirmed (WAIT); 0, the default, asks none.
	WaitReplicas int `yaml:"wait_replicas"`
	// WaitAOF counts a message as confirmed only when the server's append-only file has it on disk (WAITAOF, Redis 7.2 and later).
	WaitAOF bool `yaml:"wait_aof"`
	// WaitTimeout is how long one WAIT or WAITAOF may take before it is asked again; 1s by default.
	WaitTimeout config.Duration `yaml:"wait_timeout"`
	// ConfirmTimeout is how long the server may stay silent while messages wait for its reply; then the connection is given up
	// and they are sent again. 30s by default.
	ConfirmTimeout config.Duration `yaml:"confirm_timeout"`
}

// Validate reports what could never confirm a message.
func (c DestinationConfig) Validate() error {
	errs := []error{c.checkFormat()}
	if c.MaxLength < 0 {
		errs = append(errs, config.Invalid("max_length", "%d is negative; 0 never trims", c.MaxLength))
	}
	if c.WaitReplicas < 0 {
		errs = append(errs, config.Invalid("wait_replicas", "%d is negative; 0 waits for none", c.WaitReplicas))
	}
	if time.Duration(c.WaitTimeout) < time.Millisecond {
		errs = append(errs, config.Invalid("wait_timeout", `%s is less than 1ms; write for example "1s"`, c.WaitTimeout))
	}
	if c.ConfirmTimeout < 2*c.WaitTimeout {
		errs = append(errs, config.Invalid("confirm_timeout", "%s is less than twice the wait_timeout of %s", c.ConfirmTimeout, c.WaitTimeout))
	}
	return errors.Join(errs...)
}

func (c DestinationConfig) checkFormat() error {
	switch {
	case c.Format != WatermillFormat && c.Format != FieldsFormat:
		return config.Invalid("format", "%q is not one of watermill, fields", string(c.Format))
	case c.Format == WatermillFormat && c.PayloadField != payloadField:
		return config.Invalid("payload_field", "needs the format fields")
	case c.PayloadField == "":
		return config.Invalid("payload_field", `is empty; write for example "payload"`)
	case strings.HasPrefix(c.PayloadField, reservedPrefix) || c.PayloadField == record.IDKey:
		return config.Invalid("payload_field", "%q means something else in an entry; write another name", c.PayloadField)
	}
	return nil
}
