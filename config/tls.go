package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
)

// TLS says how a connection is encrypted and who is trusted. What is left out has Go's defaults: the system's authorities, the name that was
// dialled, no certificate of our own. The files are read anew for each connection, so a certificate that is replaced is used from then on.
type TLS struct {
	// CA is a PEM file with the authorities that the other side's certificate must come from; by default those of the system.
	CA Path `yaml:"ca"`
	// Cert and Key are PEM files with our own certificate and its private key; both or neither.
	Cert Path `yaml:"cert"`
	Key  Path `yaml:"key"`
	// ServerName is the name in the other side's certificate; by default the host that was dialled.
	ServerName string `yaml:"server_name"`
}

// Validate reports files that cannot be used.
func (t TLS) Validate() error {
	if (t.Cert == "") != (t.Key == "") {
		return Invalid("cert", "and key go together: give both or neither")
	}
	var errs []error
	if _, err := t.pool(); err != nil {
		errs = append(errs, Invalid("ca", "%w", err))
	}
	if _, err := t.pair(); err != nil {
		errs = append(errs, Invalid("cert", "%w", err))
	}
	return errors.Join(errs...)
}

// Client gives the configuration for a connection to host, from the files as they are now. TLS 1.2 is the least.
func (t TLS) Client(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if c.ServerName == "" {
		c.ServerName = host
	}
	var err error
	if c.RootCAs, err = t.pool(); err != nil {
		return nil, err
	}
	c.Certificates, err = t.pair()
	return c, err
}

// Server gives the configuration of a listener. With a CA it asks the other side for a certificate of that authority.
func (t TLS) Server() (*tls.Config, error) {
	if t.Cert == "" {
		return nil, errors.New("a listener with tls needs cert and key")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		var err error
		if c.Certificates, err = t.pair(); err != nil {
			return nil, err
		}
		if c.ClientCAs, err = t.pool(); err != nil {
			return nil, err
		}
		if c.ClientCAs != nil {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return c, nil
	}}, nil
}

// pool gives nil without a CA.
func (t TLS) pool() (*x509.CertPool, error) {
	if t.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(string(t.CA))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return pool, nil
}

// pair gives none without a Cert.
func (t TLS) pair() ([]tls.Certificate, error) {
	if t.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(string(t.Cert), string(t.Key))
	if err != nil {
		return nil, err
	}
	return []tls.Certificate{pair}, nil
}
