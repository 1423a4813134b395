package redisstream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/integration/brokers"
)

// authority signs certificates into a folder of the test.
type authority struct {
	*testing.T
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	a.file = a.sign("authority", a.cert, a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a, err)
	return key
}

// issue writes a certificate for 127.0.0.1 and a name, which ends at a time, and its key.
func (a *authority) issue(name string, end time.Time) (cert, key string) {
	a.Helper()
	own := a.newKey()
	cert = a.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, own)
	der, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(a, err)
	return cert, a.write(name+".key", "PRIVATE KEY", der)
}

func (a *authority) sign(name string, c *x509.Certificate, key *ecdsa.PrivateKey) string {
	a.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	require.NoError(a, err)
	return a.write(name+".crt", "CERTIFICATE", der)
}

func (a *authority) write(name, kind string, der []byte) string {
	a.Helper()
	file := filepath.Join(a.dir, name)
	require.NoError(a, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// client is what a client of the authority's servers needs.
func (a *authority) client() *config.TLS {
	a.Helper()
	cert, key := a.issue("client", time.Now().Add(time.Hour))
	return &config.TLS{CA: config.Path(a.file), Cert: config.Path(cert), Key: config.Path(key)}
}

// server starts a Redis that also speaks TLS, at the second address, with a certificate that ends at a time. It demands one of its clients.
func (a *authority) server(name string, end time.Time, arguments ...string) (b *brokers.Broker, encrypted string) {
	a.Helper()
	cert, key := a.issue(name, end)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(a, err)
	encrypted = listener.Addr().String()
	require.NoError(a, listener.Close())
	_, port, err := net.SplitHostPort(encrypted)
	require.NoError(a, err)
	return brokers.RedisOwn(a, append([]string{
		"--tls-port", port, "--tls-ca-cert-file", a.file, "--tls-cert-file", cert, "--tls-key-file", key,
	}, arguments...)...), encrypted
}
