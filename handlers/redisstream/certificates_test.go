package redisstream_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/integration/brokers"
)

// clientTLS is what a client of the servers needs.
func clientTLS(c *brokers.Certificates) *config.TLS {
	return &config.TLS{CA: config.Path(c.CA), Cert: config.Path(c.Client.Cert), Key: config.Path(c.Client.Key)}
}

// encrypted starts a Redis that also speaks TLS, at the second address, and demands a certificate there. The first is for the test's own questions.
func encrypted(t *testing.T, c *brokers.Certificates, shown brokers.KeyPair, arguments ...string) (b *brokers.Broker, address string) {
	t.Helper()
	address = nobody(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return brokers.RedisOwn(t, append([]string{
		"--tls-port", port, "--tls-ca-cert-file", c.CA, "--tls-cert-file", shown.Cert, "--tls-key-file", shown.Key,
	}, arguments...)...), address
}
