package brokers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// KeyPair names two PEM files: a certificate and its private key.
type KeyPair struct{ Cert, Key string }

// Certificates are PEM files of a certificate authority of the test's own, and of what it signed: good ones, and for each thing
// that can be wrong with a certificate one with just that wrong.
type Certificates struct {
	CA      string // the authority that both sides trust
	OtherCA string // an authority that signed only WrongCA and WrongClient

	Server KeyPair // for 127.0.0.1, ::1 and localhost
	Client KeyPair // for a client that has to show one

	WrongName KeyPair // a server elsewhere.example
	Expired   KeyPair // a server whose certificate ended a day ago
	WrongCA   KeyPair // a server that OtherCA vouches for

	WrongClient KeyPair // a client that OtherCA vouches for

	client *tls.Config
}

// NewCertificates makes certificates below t.TempDir. They are valid for a day.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	ca, other := newAuthority(t, dir, "ca"), newAuthority(t, dir, "other-ca")
	elsewhere := forServer()
	elsewhere.DNSNames, elsewhere.IPAddresses = []string{"elsewhere.example"}, nil
	expired := forServer()
	expired.NotBefore, expired.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	c := &Certificates{
		CA:          ca.file,
		OtherCA:     other.file,
		Server:      ca.sign(t, "server", forServer()),
		Client:      ca.sign(t, "client", forClient()),
		WrongName:   ca.sign(t, "wrong-name", elsewhere),
		Expired:     ca.sign(t, "expired", expired),
		WrongCA:     other.sign(t, "wrong-ca", forServer()),
		WrongClient: other.sign(t, "wrong-client", forClient()),
	}
	pair, err := tls.LoadX509KeyPair(c.Client.Cert, c.Client.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	c.client = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return c
}

// ClientConfig is a client's side of TLS as it should be: it trusts CA and shows Client. Each call returns another copy.
func (c *Certificates) ClientConfig() *tls.Config { return c.client.Clone() }

func forServer() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

func forClient() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// authority signs certificates and writes them into its folder.
type authority struct {
	dir, file   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, dir, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	a := &authority{dir: dir, certificate: template}
	a.key = newKey(t)
	signed := a.issue(t, template, a.key)
	a.file = a.write(t, name+".pem", "CERTIFICATE", signed)
	var err error
	if a.certificate, err = x509.ParseCertificate(signed); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(t testing.TB, name string, template *x509.Certificate) KeyPair {
	t.Helper()
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key := newKey(t)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return KeyPair{
		Cert: a.write(t, name+".pem", "CERTIFICATE", a.issue(t, template, key)),
		Key:  a.write(t, name+"-key.pem", "PRIVATE KEY", private),
	}
}

func (a *authority) issue(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	if template.NotAfter.IsZero() {
		// A clock that is a little behind must not find them too new.
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func (a *authority) write(t testing.TB, name, kind string, content []byte) string {
	t.Helper()
	file := filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
