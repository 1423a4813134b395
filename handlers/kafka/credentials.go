package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mqferry/mqferry/config"
)

// SASL is how we say to a broker who we are. All three are needed.
type SASL struct {
	// Mechanism is how the password is shown to be known: PLAIN sends it, so it needs tls; with the others it stays here.
	Mechanism Mechanism `yaml:"mechanism"`
	// Username is the user's name.
	Username string `yaml:"username"`
	// Password is the user's password.
	Password config.Secret `yaml:"password"`
}

// Mechanism is one of Kafka's.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// Words lists the mechanisms.
func (Mechanism) Words() []string {
	return []string{string(Plain), string(ScramSHA256), string(ScramSHA512)}
}

// Validate reports what is missing.
func (s SASL) Validate() error {
	errs := []error{oneOf("mechanism", s.Mechanism)}
	if s.Username == "" {
		errs = append(errs, config.Invalid("username", "is missing; leave sasl out if the brokers do not ask for one"))
	}
	if s.Password == "" {
		errs = append(errs, config.Invalid("password", `is missing; write for example "${KAFKA_PASSWORD}"`))
	}
	return errors.Join(errs...)
}

// mechanism gives franz-go's own.
func (s SASL) mechanism() sasl.Mechanism {
	switch s.Mechanism {
	case ScramSHA256:
		return scram.Auth{User: s.Username, Pass: s.Password.Reveal()}.AsSha256Mechanism()
	case ScramSHA512:
		return scram.Auth{User: s.Username, Pass: s.Password.Reveal()}.AsSha512Mechanism()
	}
	return plain.Auth{User: s.Username, Pass: s.Password.Reveal()}.AsMechanism()
}
