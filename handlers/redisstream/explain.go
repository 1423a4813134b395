package redisstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
)

// explain adds to what went wrong while a connection was made what can be done about it.
func (s *server) explain(err error) error {
	if hint := s.hint(err); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

func (s *server) hint(err error) string {
	var (
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		alert    *net.OpError
		plain    tls.RecordHeaderError
		no       redigo.Error
		network  net.Error
		isSilent = errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
	)
	switch {
	case errors.As(err, &no), errors.Is(err, errReplica), errors.Is(err, context.Canceled):
		return ""
	case errors.As(err, &unknown):
		return "set tls.ca to the certificate of the authority that signed the server's"
	case errors.As(err, &name):
		return "set tls.server_name to a name in the server's certificate, or address it by one"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "replace the server's certificate, or set the clock right"
	case errors.As(err, &alert) && alert.Op == "remote error": // So crypto/tls calls what the other side complains of.
		return "the server refuses our side of the handshake: set tls.cert and tls.key to a certificate of an authority that it trusts"
	case errors.As(err, &plain):
		return "the server does not speak TLS at this port: use its TLS port, or leave out tls and rediss://"
	case s.tls != nil && s.tls.Cert == "" && hungUp(err): // Its complaint may get lost with the connection.
		return "if the server demands a certificate, set tls.cert and tls.key; if it expects no TLS at this port, leave out tls and rediss://"
	case s.tls != nil && (isSilent || hungUp(err)):
		return "if the server expects no TLS at this port, leave out tls and rediss://"
	case s.tls == nil && (isSilent || hungUp(err) || isStrange(err)):
		return "if the server expects TLS at this port, set tls or write rediss://"
	}
	return ""
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isStrange reports whether the other side sent something that is not the protocol: redigo has a type of its own for that, which it keeps
// to itself.
func isStrange(err error) bool {
	var network net.Error
	return !errors.As(err, &network)
}

// isNoPermission reports whether an ACL is in the way, in the words of either client.
func isNoPermission(err error) bool {
	var no redigo.Error
	return errors.As(err, &no) && code(no) == "NOPERM" || redis.HasErrorPrefix(err, "NOPERM")
}
