package brokers

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// User is a name and a password. The name is a plain word; the password may hold any character of ASCII that is printed.
type User struct{ Name, Password string }

// Security is what a broker demands of its clients. The zero value demands nothing.
type Security struct {
	// Certificates make the broker speak TLS, and nothing else, on its address; nil is plain text.
	Certificates *Certificates
	// Server is the certificate that the broker shows, one out of Certificates or another; the zero value is Certificates.Server.
	Server KeyPair
	// ClientCertificate demands a certificate of the client, signed by Certificates.CA.
	ClientCertificate bool
	// User has to log in, and may do all. A Kafka takes PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. For a Redis the name "default" is
	// the user of requirepass; with any other name the default user is off. The zero value lets everybody in; RabbitMQ, which
	// always has a user, takes it for guest with the password guest.
	User User
}

// KafkaSecured is KafkaOwn with demands on its clients.
func KafkaSecured(t testing.TB, s Security, settings ...string) *Broker {
	t.Helper()
	return own(t, kafka{settings: settings, security: s})
}

// RedisSecured is RedisOwn with demands on its clients.
func RedisSecured(t testing.TB, s Security, arguments ...string) *Broker {
	t.Helper()
	return own(t, redis{arguments: arguments, security: s})
}

// RabbitMQSecured is RabbitMQOwn with demands on its clients. The management API asks for the same user, without TLS.
func RabbitMQSecured(t testing.TB, s Security, settings ...string) *Broker {
	t.Helper()
	return own(t, newRabbitMQ(settings...).secured(s))
}

// Secure stops the broker if it runs, and starts it again with other demands, on the same port with the same data: another
// certificate, another password. A user of another name than before is added to a Kafka and a RabbitMQ; the earlier one stays
// there.
func (b *Broker) Secure(t testing.TB, s Security) {
	t.Helper()
	b.needStarted(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process.Running() {
		b.endLocked(t, syscall.SIGTERM)
	}
	b.set(b.current().secured(s))
	if err := b.prepareAndStart(); err != nil {
		t.Fatal(err)
	}
}

// The files of a secured broker, in its folder: there the paths hold no character that a configuration would misread.
const (
	caFile         = "ca.pem"
	serverCertFile = "server.pem"
	serverKeyFile  = "server-key.pem"
	serverPairFile = "server-pair.pem"
)

func (s Security) tls() bool  { return s.Certificates != nil }
func (s Security) user() bool { return s.User != User{} }

func (s Security) server() KeyPair {
	if s.Server == (KeyPair{}) {
		return s.Certificates.Server
	}
	return s.Server
}

// write puts the files into the folder.
func (s Security) write(dir string) error {
	if s.user() && s.User.Name == "" {
		return errors.New("the user needs a name")
	}
	if !s.tls() {
		if s.ClientCertificate || s.Server != (KeyPair{}) {
			return errors.New("a certificate is demanded or shown with Certificates only")
		}
		return nil
	}
	for name, sources := range map[string][]string{
		caFile:         {s.Certificates.CA},
		serverCertFile: {s.server().Cert},
		serverKeyFile:  {s.server().Key},
		serverPairFile: {s.server().Key, s.server().Cert},
	} {
		var content []byte
		for _, source := range sources {
			part, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			content = append(content, part...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pingConfig shows the client's certificate and accepts exactly the server's, with whatever is wrong with it; it is nil without TLS.
func (s Security) pingConfig() (*tls.Config, error) {
	if !s.tls() {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.server().Cert, s.server().Key)
	if err != nil {
		return nil, fmt.Errorf("the server's certificate: %w", err)
	}
	config := s.Certificates.ClientConfig()
	config.InsecureSkipVerify = true // replaced by the comparison
	config.VerifyPeerCertificate = func(shown [][]byte, _ [][]*x509.Certificate) error {
		if len(shown) == 0 || !bytes.Equal(shown[0], pair.Certificate[0]) {
			return errors.New("the server shows another certificate")
		}
		return nil
	}
	return config, nil
}
