package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// dialTLS connects to a broker, with the certificate files as they are now.
func (c Config) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.DialTimeout))
	defer cancel()
	var dialer net.Dialer
	plain, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn, err := c.encrypt(ctx, plain, address)
	if err != nil {
		_ = plain.Close()
		// As an error of dialling, which the client takes for one of the way and not of what it was about to send.
		return nil, &net.OpError{Op: "dial", Net: network, Addr: plain.RemoteAddr(), Err: err}
	}
	return conn, nil
}

func (c Config) encrypt(ctx context.Context, plain net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	settings, err := c.TLS.Client(host)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	conn := tls.Client(plain, settings)
	err = conn.HandshakeContext(ctx)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil, fmt.Errorf("%w: the broker closed the connection", errNoTLS)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: %w", errNoTLS, err)
	}
	return conn, err
}

// errNoTLS is what a port without TLS makes of a greeting.
var errNoTLS = errors.New("no answer to TLS's greeting")

// explained says of an error of connecting which broker it is, and what can be done.
func (c Config) explained(address string, err error) error {
	if advice := c.advice(err); advice != "" {
		return fmt.Errorf("kafka broker %s: %w: %s", address, err, advice)
	}
	return fmt.Errorf("kafka broker %s: %w", address, err)
}

const (
	adviceCredentials = "check sasl.username and sasl.password, and that the broker knows them for this sasl.mechanism"
	adviceMechanism   = "choose a sasl.mechanism that this port takes"
)

// advice says what to do about an error of connecting that does not pass by itself; it is empty for others.
func (c Config) advice(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		early   *kgo.ErrFirstReadEOF
		network *net.OpError
	)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return adviceCredentials
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return adviceMechanism
	case errors.Is(err, kerr.IllegalSaslState):
		return "leave sasl out, or give the port that asks for it"
	case errors.As(err, &unknown):
		return "give its authority in tls.ca"
	case errors.As(err, &name):
		return "give the name that is in its certificate in tls.server_name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew its certificate, or set the clock"
	case errors.As(err, &record), errors.Is(err, errNoTLS):
		return "if the port has no TLS, leave tls out or give the port that has it"
	case errors.As(err, &early) && c.TLS == nil && c.SASL == nil:
		return "set tls or sasl, or give the port that needs neither"
	case errors.As(err, &early) && c.TLS == nil:
		return "set tls, or give the port that does not need it"
	case errors.As(err, &early) && c.SASL == nil:
		return "set sasl, or give the port that does not need it"
	case errors.As(err, &network) && network.Op == "remote error":
		return "the broker does not accept our certificate: check tls.cert and tls.key"
	}
	return ""
}

// guess says what may be the reason why a broker that was reached does not greet us, where advice knows none.
func (c Config) guess(err error) string {
	var network *net.OpError
	var answer *kerr.Error
	switch {
	case c.advice(err) != "" || errors.As(err, &network) || errors.As(err, &answer) || errors.Is(err, context.DeadlineExceeded):
		return ""
	case c.SASL != nil && errors.Is(err, io.EOF):
		return "the broker closed the connection before it knew who we are: if that goes on, check sasl"
	case c.TLS == nil && !errors.Is(err, io.EOF):
		return "if the port has TLS, set tls"
	}
	return ""
}
