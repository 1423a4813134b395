package redisstream

import (
	"errors"
	"time"

	"github.com/mqferry/mqferry/config"
)

// The shortest lease, so that the renewals are not the load; and the most that a lease and a claim may take.
const (
	minLease = 100 * time.Millisecond
	maxIdle  = 24 * time.Hour
)

// Config is what a data center with a Redis is made of.
type Config struct {
	// Address is the server's host:port.
	Address string `yaml:"address"`
	// Username is the ACL user; empty is the default user.
	Username string `yaml:"username"`
	// Password is that user's password; empty means that none is asked for.
	Password config.Secret `yaml:"password"`
	// DB is the number of the database; 0 by default.
	DB int `yaml:"db"`
	// DialTimeout bounds how long one attempt to connect may take; 5s by default.
	DialTimeout config.Duration `yaml:"dial_timeout"`
}

// Validate reports what no Redis could be reached with.
func (c Config) Validate() error {
	var errs []error
	errs = append(errs, config.CheckAddress("address", c.Address, "127.0.0.1:6379"))
	if c.DB < 0 {
		errs = append(errs, config.Invalid("db", "%d is negative; databases are counted from 0", c.DB))
	}
	if c.Username != "" && c.Password == "" {
		errs = append(errs, config.Invalid("password", "is missing; a username goes with one"))
	}
	if c.DialTimeout <= 0 {
		errs = append(errs, config.Invalid("dial_timeout", `is 0; write for example "5s"`))
	}
	return errors.Join(errs...)
}

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
	var errs []error
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

// DefaultConfig returns the options of a data center, a source and a destination that the file says nothing about.
func DefaultConfig() (Config, SourceConfig, DestinationConfig) {
	return Config{DialTimeout: config.Duration(5 * time.Second)},
		SourceConfig{Lease: config.Duration(5 * time.Second), ClaimIdle: config.Duration(60 * time.Second)},
		DestinationConfig{WaitTimeout: config.Duration(time.Second), ConfirmTimeout: config.Duration(30 * time.Second)}
}
