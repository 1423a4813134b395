package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
)

func TestTLSMistakesAreFoundAtTheirPlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mqferry.yml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "not.pem"), []byte("not a certificate"), 0o600))
	write := func(tls string) error {
		text := "datacenters: {a: {memory: {}}}\nroutes: [{name: r, from: a/x, to: a/y}]\nadmin: {listen: 127.0.0.1:0, tls: " + tls + "}\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := config.Load([]string{file}, config.WithBrokers("memory"))
		return err
	}
	require.ErrorContains(t, write("{ca: none.pem}"), "admin.tls.ca: open "+filepath.Join(dir, "none.pem"))
	require.ErrorContains(t, write("{ca: not.pem}"), "admin.tls.ca: holds no certificate")
	require.ErrorContains(t, write("{cert: not.pem}"), "admin.tls.cert: and key go together")
	require.ErrorContains(t, write("{cert: not.pem, key: not.pem}"), "admin.tls.cert: tls: failed to find any PEM data")
	require.ErrorContains(t, write("{}"), "admin.tls.cert: is missing")
	require.ErrorContains(t, write("{sni: x}"), `unknown key "sni"`)
}

func TestTLSClientVerifiesTheHostUnlessANameIsGiven(t *testing.T) {
	c, err := config.TLS{}.Client("broker.example")
	require.NoError(t, err)
	require.Equal(t, "broker.example", c.ServerName)
	require.Nil(t, c.RootCAs, "the system's")
	require.False(t, c.InsecureSkipVerify)
	c, err = config.TLS{ServerName: "other"}.Client("broker.example")
	require.NoError(t, err)
	require.Equal(t, "other", c.ServerName)
}
