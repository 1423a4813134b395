package kafka_test

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/integration/brokers"
)

// canary is a password that no error may show.
const canary = `c4nary@:/%#?"`

// vault is a Kafka in this process that wants TLS and a password.
type vault struct {
	*world
	certificates *brokers.Certificates
	shown        atomic.Pointer[tls.Certificate]
	locked       atomic.Bool
}

func newVault(t *testing.T, options ...kfake.Opt) *vault {
	t.Helper()
	v := &vault{certificates: brokers.NewCertificates(t)}
	v.show(t, v.certificates.Server)
	v.world = newWorld(t, append([]kfake.Opt{
		kfake.TLS(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return v.shown.Load(), nil }}),
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "ferry", canary), kfake.Superuser("SCRAM-SHA-256", "ferry", canary),
		kfake.Superuser("SCRAM-SHA-512", "ferry", canary),
	}, options...)...)
	return v
}

// show is the certificate that connections from now on are shown.
func (v *vault) show(t *testing.T, pair brokers.KeyPair) {
	t.Helper()
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	v.shown.Store(&loaded)
}

// config is what the vault takes.
func (v *vault) config() kafka.Config {
	c, _, _ := kafka.DefaultConfig()
	c.Brokers = []string{v.address()}
	c.TLS = &config.TLS{CA: config.Path(v.certificates.CA)}
	c.SASL = &kafka.SASL{Mechanism: kafka.ScramSHA256, Username: "ferry", Password: canary}
	return c
}

func open(t *testing.T, c kafka.Config) (*kafka.Connection, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := kafka.Open(ctx, c, handlers.Settings{DataCenter: "kafka"})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*kafka.Connection), nil
}

func TestTheRightCredentialsPass(t *testing.T) {
	v := newVault(t)
	for _, m := range []kafka.Mechanism{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		c := v.config()
		c.SASL.Mechanism = m
		_, err := open(t, c)
		require.NoError(t, err, m)
	}
}

func TestWhatIsWrongWithCredentialsIsToldWithTheAddressAndTheRemedy(t *testing.T) {
	v, bare := newVault(t), newWorld(t)
	for _, test := range []struct {
		name   string
		change func(*kafka.Config)
		want   string
	}{
		{"wrong authority", func(c *kafka.Config) { c.TLS.CA = config.Path(v.certificates.OtherCA) }, "give its authority in tls.ca"},
		{"no authority", func(c *kafka.Config) { c.TLS.CA = "" }, "give its authority in tls.ca"},
		{"wrong name", func(*kafka.Config) { v.show(t, v.certificates.WrongName) }, "give the name that is in its certificate in tls.server_name"},
		{"expired", func(*kafka.Config) { v.show(t, v.certificates.Expired) }, "renew its certificate"},
		{"no tls", func(c *kafka.Config) { c.TLS = nil }, "set tls"},
		{"tls where there is none", func(c *kafka.Config) {
			c.Brokers, c.SASL, c.DialTimeout = []string{bare.address()}, nil, config.Duration(time.Second)
		}, "if the port has no TLS, leave tls out or give the port that has it"},
		{"wrong password", func(c *kafka.Config) { c.SASL.Password = canary + "!" }, "check sasl"},
		{"wrong password, plain", func(c *kafka.Config) { c.SASL.Mechanism, c.SASL.Password = kafka.Plain, canary+"!" }, "check sasl"},
		{"no sasl", func(c *kafka.Config) { c.SASL = nil }, "set sasl"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v.show(t, v.certificates.Server)
			c := v.config()
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

// client is one that the vault lets in.
func (v *vault) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	return newClient(t, v.address(), append(options, kgo.DialTLSConfig(v.certificates.ClientConfig()), kgo.SASL(plain.Auth{User: "ferry", Pass: canary}.AsMechanism()))...)
}

// lock lets nobody in from now on whatever the password is, until it is unlocked.
func (v *vault) lock() {
	v.locked.Store(true)
	v.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if !v.locked.Load() {
			return nil, nil, false
		}
		v.KeepControl()
		response := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return response, nil, true
	})
}

// TestARouteWaitsOutBadCredentials breaks them while messages flow, and mends them.
func TestARouteWaitsOutBadCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(*testing.T, *vault)
		mend  func(*testing.T, *vault)
		want  string
	}{
		{
			"an expired certificate",
			func(t *testing.T, v *vault) { v.show(t, v.certificates.Expired) },
			func(t *testing.T, v *vault) { v.show(t, v.certificates.Server) },
			"renew its certificate",
		},
		{
			"another password",
			func(_ *testing.T, v *vault) { v.lock() },
			func(_ *testing.T, v *vault) { v.locked.Store(false) },
			"check sasl.username and sasl.password",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const partitions, n = 4, 4000
			v := newVault(t, kfake.SeedTopics(partitions, "in", "out"))
			conn, err := open(t, v.config())
			require.NoError(t, err)
			fillWith(t, v.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), "in", partitions, n)
			x := newTransfer(t, conn, conn, "in", "out", nil)
			require.Eventually(t, func() bool { return x.destination.Meter.Confirmed.Load() > 200 }, patience, time.Millisecond)
			test.spoil(t, v)
			v.outage(t)()
			before := v.attempts.Load()
			for _, h := range []*handlers.Health{x.source.Health, x.destination.Health} {
				require.Eventually(t, func() bool { return isDown(h, test.want) }, patience, 10*time.Millisecond)
			}
			require.Less(t, x.destination.Meter.Confirmed.Load(), int64(partitions*n))
			<-time.After(8 * time.Second) // How long it lasts.
			require.Less(t, v.attempts.Load()-before, int64(150), "a hot loop")
			for _, h := range []*handlers.Health{x.source.Health, x.destination.Health} {
				up, _, err := h.State()
				require.False(t, up)
				require.ErrorContains(t, err, test.want)
				require.ErrorContains(t, err, "kafka broker "+v.address())
				require.NotContains(t, err.Error(), "c4nary")
			}
			test.mend(t, v)
			mended := time.Now()
			x.caughtUp(kadm.NewClient(v.client(t)))
			require.Less(t, time.Since(mended), 20*time.Second)
			got := numbers(t, contentsWith(t, v.client(t, fromStart([]string{"out"})...), "out"))
			for p := range partitions {
				require.True(t, slices.Equal(span(n), first(got[p])), "partition %d", p)
			}
		})
	}
}

// first leaves out what came before.
func first(numbers []int) []int {
	seen := map[int]bool{}
	return slices.DeleteFunc(slices.Clone(numbers), func(n int) bool {
		again := seen[n]
		seen[n] = true
		return again
	})
}

func TestAPublisherThatIsShutOutBeforeItsFirstMessageRecovers(t *testing.T) {
	v := newVault(t, kfake.SeedTopics(2, "out"))
	conn, err := open(t, v.config())
	require.NoError(t, err)
	f := newFerryTo(t, conn, "out")
	v.lock()
	v.outage(t)()
	f.send(4, 0, 100, 10)
	require.Eventually(t, func() bool { return isDown(f.destination.Health, "check sasl.username and sasl.password") }, patience, time.Millisecond)
	v.locked.Store(false)
	f.settled(4, 100)
	once(t, numbers(t, contentsWith(t, v.client(t, fromStart([]string{"out"})...), "out")), 4, 100)
}

func isDown(h *handlers.Health, want string) bool {
	up, _, err := h.State()
	return !up && err != nil && strings.Contains(err.Error(), want)
}
