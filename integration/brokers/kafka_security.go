package brokers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// scramIterations is the smallest number that Kafka accepts.
const scramIterations = 4096

func (k kafka) protocol() string {
	switch {
	case k.security.tls() && k.security.user():
		return "SASL_SSL"
	case k.security.tls():
		return "SSL"
	case k.security.user():
		return "SASL_PLAINTEXT"
	default:
		return "PLAINTEXT"
	}
}

// demands are the lines of server.properties about what a client has to show.
func (k kafka) demands(dir string) []string {
	var lines []string
	for _, listener := range []string{"client", "link"} {
		prefix := "listener.name." + listener + "."
		if k.security.tls() {
			lines = append(lines,
				prefix+"ssl.keystore.type=PEM",
				prefix+"ssl.keystore.location="+filepath.Join(dir, serverPairFile),
				prefix+"ssl.truststore.type=PEM",
				prefix+"ssl.truststore.location="+filepath.Join(dir, caFile))
		}
		if k.security.ClientCertificate {
			lines = append(lines, prefix+"ssl.client.auth=required")
		}
		if k.security.user() {
			const scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
			lines = append(lines,
				prefix+"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
				prefix+"plain.sasl.jaas.config="+k.plainModule(),
				prefix+"scram-sha-256.sasl.jaas.config="+scramModule,
				prefix+"scram-sha-512.sasl.jaas.config="+scramModule)
		}
	}
	return lines
}

// plainModule quotes the password for JAAS, and that once more for a file of properties.
func (k kafka) plainModule() string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%s;",
		k.security.User.Name, strings.ReplaceAll(`"`+escape.Replace(k.security.User.Password)+`"`, `\`, `\\`))
}

// settle gives the user the passwords of SCRAM, which Kafka keeps among its data, and waits until they are known.
func (k kafka) settle(ctx context.Context, _ string, p ports) error {
	if !k.security.user() {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address(p.internal)))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{
			User: k.security.User.Name, Password: k.security.User.Password,
			Mechanism: mechanism, Iterations: scramIterations,
		}})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			return fmt.Errorf("set the password of %s: %w", mechanism, err)
		}
	}
	credentials := scram.Auth{User: k.security.User.Name, Pass: k.security.User.Password}
	for _, login := range []sasl.Mechanism{credentials.AsSha256Mechanism(), credentials.AsSha512Mechanism()} {
		if err := k.untilKnown(ctx, address(p.client), login); err != nil {
			return err
		}
	}
	return nil
}

func (k kafka) untilKnown(ctx context.Context, address string, login sasl.Mechanism) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := k.pingAs(ctx, address, login)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("log in with %s: %w", login.Name(), err)
		}
	}
}
