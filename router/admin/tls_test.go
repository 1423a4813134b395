package admin_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/router/admin"
)

// notebook is a log that may be read while it is written.
type notebook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notebook) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(line)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// guarded serves the pages over TLS until the test ends, and returns where.
func guarded(t *testing.T, settings config.TLS, logger *slog.Logger) string {
	t.Helper()
	c := config.Admin{Listen: "127.0.0.1:0", TLS: &settings}
	listener, err := admin.Listen(c)
	require.NoError(t, err)
	server := admin.Serve(listener, newOffice(t).pages, logger)
	t.Cleanup(server.Stop)
	url := admin.URL(c, listener)
	require.True(t, strings.HasPrefix(url, "https://"), url)
	return url
}

func serverTLS(pair brokers.KeyPair) config.TLS {
	return config.TLS{Cert: config.Path(pair.Cert), Key: config.Path(pair.Key)}
}

// visit asks for a page over a connection of its own, and gives the certificate's name that was shown.
func visit(settings *tls.Config, url string) (code int, name string, err error) {
	client := http.Client{Timeout: deadline, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: settings}}
	answer, err := client.Get(url + "healthz")
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, "", err
	}
	if answer.TLS == nil {
		return answer.StatusCode, "", nil
	}
	return answer.StatusCode, strings.Join(answer.TLS.PeerCertificates[0].DNSNames, " "), nil
}

func TestPagesAreServedOverTLSToWhoeverTrustsTheCertificate(t *testing.T) {
	certificates := brokers.NewCertificates(t)
	url := guarded(t, serverTLS(certificates.Server), nil)
	trusting := certificates.ClientConfig()
	trusting.Certificates = nil

	code, _, err := visit(trusting, url)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)

	_, _, err = visit(&tls.Config{MinVersion: tls.VersionTLS12}, url)
	require.ErrorContains(t, err, "unknown authority")

	trusting.MaxVersion, trusting.MinVersion = tls.VersionTLS11, tls.VersionTLS10
	_, _, err = visit(trusting, url)
	require.ErrorContains(t, err, "protocol version")
}

func TestWithAnAuthorityACertificateOfItIsDemanded(t *testing.T) {
	certificates := brokers.NewCertificates(t)
	settings := serverTLS(certificates.Server)
	settings.CA = config.Path(certificates.CA)
	url := guarded(t, settings, nil)

	mine := certificates.ClientConfig()
	code, _, err := visit(mine, url)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)

	mine.Certificates = nil
	_, _, err = visit(mine, url)
	require.ErrorContains(t, err, "certificate required")

	another, err := tls.LoadX509KeyPair(certificates.WrongClient.Cert, certificates.WrongClient.Key)
	require.NoError(t, err)
	// Shown whatever authorities the server asks for.
	mine.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &another, nil }
	_, _, err = visit(mine, url)
	require.ErrorContains(t, err, "unknown certificate authority")
}

// copyFile puts the content of one file into another, as whoever renews a certificate does.
func copyFile(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}

func TestAReplacedCertificateIsShownToTheNextVisitor(t *testing.T) {
	certificates := brokers.NewCertificates(t)
	dir := t.TempDir()
	pair := brokers.KeyPair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	copyFile(t, pair.Cert, certificates.Server.Cert)
	copyFile(t, pair.Key, certificates.Server.Key)
	url := guarded(t, serverTLS(pair), nil)
	visitor := certificates.ClientConfig()
	visitor.InsecureSkipVerify = true // The name is what the test looks at.

	_, name, err := visit(visitor, url)
	require.NoError(t, err)
	require.Equal(t, "localhost", name)

	copyFile(t, pair.Cert, certificates.WrongName.Cert)
	_, _, err = visit(visitor, url)
	require.Error(t, err, "its key is the old one still")

	copyFile(t, pair.Key, certificates.WrongName.Key)
	_, name, err = visit(visitor, url)
	require.NoError(t, err)
	require.Equal(t, "elsewhere.example", name)
}

func TestAnAuthorityThatIsReplacedDecidesAboutTheNextVisitor(t *testing.T) {
	certificates := brokers.NewCertificates(t)
	settings := serverTLS(certificates.Server)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	copyFile(t, ca, certificates.OtherCA)
	settings.CA = config.Path(ca)
	url := guarded(t, settings, nil)

	_, _, err := visit(certificates.ClientConfig(), url)
	require.Error(t, err)
	copyFile(t, ca, certificates.CA)
	_, _, err = visit(certificates.ClientConfig(), url)
	require.NoError(t, err)
}

func TestPlainHTTPIsRefusedWithoutAWordInTheLog(t *testing.T) {
	certificates := brokers.NewCertificates(t)
	var log notebook
	url := guarded(t, serverTLS(certificates.Server), slog.New(slog.NewJSONHandler(&log, nil)))
	plain := "http" + strings.TrimPrefix(url, "https")
	for range 20 {
		code, _, err := visit(nil, plain)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, code)
	}
	require.Empty(t, log.String())
}

func TestAtDebugLevelARefusedVisitorIsALineInTheLog(t *testing.T) {
	certificates := brokers.NewCertificates(t)
	var log notebook
	url := guarded(t, serverTLS(certificates.Server), slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for range 5 {
		_, _, err := visit(nil, "http"+strings.TrimPrefix(url, "https"))
		require.NoError(t, err)
	}
	// It is written after the answer.
	require.Eventually(t, func() bool { return strings.Count(log.String(), "\n") >= 5 }, deadline, 5*time.Millisecond)
	require.Equal(t, 5, strings.Count(log.String(), "\n"), log.String())
	require.Equal(t, 5, strings.Count(log.String(), `"level":"DEBUG"`), log.String())
}

func TestAListenerThatCannotBeIsAnErrorAtItsPlace(t *testing.T) {
	_, err := admin.Listen(config.Admin{Listen: "127.0.0.1:0", TLS: &config.TLS{}})
	require.ErrorContains(t, err, "admin.tls: a listener with tls needs cert and key")

	taken, err := admin.Listen(config.Admin{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	defer taken.Close()
	_, err = admin.Listen(config.Admin{Listen: taken.Addr().String()})
	require.ErrorContains(t, err, "admin.listen: ")
	require.ErrorContains(t, err, "free that address, or choose another")
}
