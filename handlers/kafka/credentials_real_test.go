package kafka_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/integration/brokers"
)

func TestARealKafkaThatDemandsCredentials(t *testing.T) {
	if brokers.Brief() {
		t.Skip("needs a real broker")
	}
	t.Parallel()
	certificates := brokers.NewCertificates(t)
	demands := brokers.Security{Certificates: certificates, User: brokers.User{Name: "ferry", Password: canary}}
	b := brokers.KafkaSecured(t, demands, "connections.max.reauth.ms=5000") // Who does not log in again is thrown out.
	right := func() kafka.Config {
		c, _, _ := kafka.DefaultConfig()
		c.Brokers = []string{b.Address()}
		c.TLS = &config.TLS{CA: config.Path(certificates.CA)}
		c.SASL = &kafka.SASL{Mechanism: kafka.ScramSHA512, Username: "ferry", Password: canary}
		return c
	}
	client := func(t *testing.T, options ...kgo.Opt) *kgo.Client {
		return newClient(t, b.Address(), append(options, kgo.DialTLSConfig(certificates.ClientConfig()), kgo.SASL(plain.Auth{User: "ferry", Pass: canary}.AsMechanism()))...)
	}
	t.Run("the right ones pass", func(t *testing.T) {
		for _, m := range []kafka.Mechanism{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
			for _, kind := range []kafka.Client{kafka.Pipelined, kafka.Watermill} {
				c := right()
				c.SASL.Mechanism, c.Client = m, kind
				conn, err := open(t, c)
				require.NoError(t, err)
				in, out := newTopicName(), newTopicName()
				f := newFerryTo(t, conn, in)
				f.send(2, 0, 10, 0)
				f.settled(2, 10)
				x := newTransfer(t, conn, conn, in, out, nil)
				arrives(t, kadm.NewClient(client(t)), out, 20)
				x.stop()
			}
		}
	})
	t.Run("what is wrong is told", func(t *testing.T) { realComplaints(t, certificates, right) })
	t.Run("a route waits until it is mended", func(t *testing.T) {
		expired, changed := demands, demands
		expired.Server = certificates.Expired
		changed.User.Password = "another"
		c := right()
		c.SASL.Mechanism = kafka.Plain // Passwords for SCRAM are changed only after the broker is up, when the old ones have let some in.
		conn, err := open(t, c)
		require.NoError(t, err)
		in, out := newTopicName(), newTopicName()
		admin := kadm.NewClient(client(t))
		_, err = admin.CreateTopics(t.Context(), 2, 1, nil, in, out)
		require.NoError(t, err)
		x := newTransfer(t, conn, conn, in, out, nil)
		fillWith(t, client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), in, 2, 100)
		arrives(t, admin, out, 200)
		n := 100
		for _, bad := range []struct {
			demands brokers.Security
			want    string
		}{{expired, "renew its certificate"}, {changed, "check sasl.username and sasl.password"}} {
			b.Secure(t, bad.demands)
			for _, h := range []*handlers.Health{x.source.Health, x.destination.Health} {
				require.Eventually(t, func() bool { return isDown(h, bad.want) }, patience, 10*time.Millisecond)
				_, _, err := h.State()
				require.ErrorContains(t, err, "kafka broker "+b.Address())
				require.NotContains(t, err.Error(), "c4nary")
			}
			b.Secure(t, demands)
			fillWith(t, client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), in, 2, 100)
			n += 100
			x.caughtUp(kadm.NewClient(client(t)))
		}
		require.GreaterOrEqual(t, len(contentsWith(t, client(t, fromStart([]string{out})...), out)), 2*n)
	})
	t.Run("a certificate of the client", func(t *testing.T) {
		demands := demands
		demands.ClientCertificate = true
		b.Secure(t, demands)
		_, err := open(t, right())
		require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
		require.ErrorContains(t, err, "check tls.cert and tls.key")
		cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
		replace := func(pair brokers.KeyPair) {
			for from, to := range map[string]string{pair.Cert: cert, pair.Key: key} {
				text, err := os.ReadFile(from)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(to, text, 0o600))
			}
		}
		replace(certificates.WrongClient)
		c := right()
		c.TLS.Cert, c.TLS.Key = config.Path(cert), config.Path(key)
		_, err = open(t, c)
		require.ErrorContains(t, err, "check tls.cert and tls.key")
		replace(certificates.Client)
		_, err = open(t, c)
		require.NoError(t, err, "a file that is replaced is read anew")
	})
}

func realComplaints(t *testing.T, certificates *brokers.Certificates, right func() kafka.Config) {
	bare := brokers.Kafka(t, "a").Address()
	for _, test := range []struct {
		name   string
		change func(*kafka.Config)
		want   string
	}{
		{"wrong authority", func(c *kafka.Config) { c.TLS.CA = config.Path(certificates.OtherCA) }, "give its authority in tls.ca"},
		{"wrong name", func(c *kafka.Config) { c.TLS.ServerName = "kafka.example" }, "give the name that is in its certificate in tls.server_name"},
		{"no tls", func(c *kafka.Config) { c.TLS = nil }, "set tls"},
		{"nothing", func(c *kafka.Config) { c.TLS, c.SASL = nil, nil }, "set tls"},
		{"tls where there is none", func(c *kafka.Config) { c.Brokers, c.SASL = []string{bare}, nil }, "if the port has no TLS, leave tls out or give the port that has it"},
		{"sasl where there is none", func(c *kafka.Config) { c.Brokers, c.TLS = []string{bare}, nil }, "leave sasl out, or give the port that asks for it"},
		{"wrong password", func(c *kafka.Config) { c.SASL.Password = canary + "!" }, "check sasl.username and sasl.password"},
		{"wrong password, plain", func(c *kafka.Config) { c.SASL.Mechanism, c.SASL.Password = kafka.Plain, canary+"!" }, "check sasl.username and sasl.password"},
		{"unknown user", func(c *kafka.Config) { c.SASL.Username = "nobody" }, "check sasl.username and sasl.password"},
		{"no sasl", func(c *kafka.Config) { c.SASL = nil }, "set sasl"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := right()
			test.change(&c)
			_, err := open(t, c)
			t.Log(err)
			require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
			require.ErrorContains(t, err, "kafka broker "+c.Brokers[0])
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "c4nary")
		})
	}
}
