package brokers_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mqferry/mqferry/integration/brokers"
)

// oddPassword holds what URLs, shells, settings and JAAS read as something else.
const oddPassword = `a@b:c/d%e#f?g "h" \i 'j' ;k=l&m,[n]`

// try connects a client to a broker and asks for something.
type try func(t *testing.T, b *brokers.Broker, config *tls.Config, user brokers.User) error

func tryRedis(t *testing.T, b *brokers.Broker, config *tls.Config, user brokers.User) error {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: b.Address(), MaxRetries: -1, TLSConfig: config, Username: user.Name, Password: user.Password,
	})
	defer client.Close()
	return client.Ping(deadline(t, 5*time.Second)).Err()
}

func tryRabbitMQ(t *testing.T, b *brokers.Broker, config *tls.Config, user brokers.User) error {
	t.Helper()
	if user == (brokers.User{}) {
		user = brokers.User{Name: "guest", Password: "guest"}
	}
	scheme := "amqp://"
	if config != nil {
		scheme = "amqps://"
	}
	connection, err := amqp.DialConfig(scheme+b.Address(), amqp.Config{
		SASL:            []amqp.Authentication{&amqp.PlainAuth{Username: user.Name, Password: user.Password}},
		TLSClientConfig: config,
		Dial:            amqp.DefaultDial(5 * time.Second),
	})
	if err != nil {
		return err
	}
	return connection.Close()
}

func kafkaPlain(user brokers.User) sasl.Mechanism {
	return plain.Auth{User: user.Name, Pass: user.Password}.AsMechanism()
}

func kafkaScram256(user brokers.User) sasl.Mechanism {
	return scram.Auth{User: user.Name, Pass: user.Password}.AsSha256Mechanism()
}

func kafkaScram512(user brokers.User) sasl.Mechanism {
	return scram.Auth{User: user.Name, Pass: user.Password}.AsSha512Mechanism()
}

// tryKafka produces a record, so that the address that the broker advertises is used too.
func tryKafka(address string, login func(brokers.User) sasl.Mechanism) try {
	return func(t *testing.T, b *brokers.Broker, config *tls.Config, user brokers.User) error {
		t.Helper()
		if address == "" {
			address = b.Address()
		}
		options := []kgo.Opt{
			kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(), kgo.RetryTimeout(2 * time.Second),
			kgo.RecordRetries(3), kgo.UnknownTopicRetries(20),
		}
		if config != nil {
			options = append(options, kgo.DialTLSConfig(config))
		}
		if user != (brokers.User{}) {
			options = append(options, kgo.SASL(login(user)))
		}
		client, err := kgo.NewClient(options...)
		require.NoError(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.Ping(ctx); err != nil {
			return err
		}
		return client.ProduceSync(ctx, &kgo.Record{Topic: "tried", Value: []byte("x")}).FirstErr()
	}
}

// everyBroker runs the test on each kind, with the clients that have to be let in or out alike. With -short it is Redis alone, which
// starts at once.
func everyBroker(t *testing.T, s brokers.Security, test func(t *testing.T, b *brokers.Broker, tries ...try)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, brokers.RedisSecured(t, s), tryRedis)
	})
	if brokers.Brief() {
		return
	}
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		test(t, brokers.RabbitMQSecured(t, s), tryRabbitMQ)
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		test(t, brokers.KafkaSecured(t, s), tryKafka("", kafkaPlain), tryKafka("", kafkaScram256), tryKafka("", kafkaScram512))
	})
}

func TestASecuredBrokerLetsInOnlyWhoShowsTheRightPasswordOverTLS(t *testing.T) {
	t.Parallel()
	certificates := brokers.NewCertificates(t)
	right := brokers.User{Name: "ferry", Password: oddPassword}
	s := brokers.Security{Certificates: certificates, User: right}
	everyBroker(t, s, func(t *testing.T, b *brokers.Broker, tries ...try) {
		for _, try := range tries {
			require.NoError(t, try(t, b, certificates.ClientConfig(), right))
			require.Error(t, try(t, b, certificates.ClientConfig(), brokers.User{Name: "ferry", Password: "wrong"}))
		}
		require.Error(t, tries[0](t, b, certificates.ClientConfig(), brokers.User{}))
		require.Error(t, tries[0](t, b, nil, right))
		requireCertificateError(t, tries[0](t, b, &tls.Config{RootCAs: poolOf(t, certificates.OtherCA)}, right))
		if b.URL() != "" {
			require.NoError(t, tryURL(t, b, certificates.ClientConfig()))
		}
	})
}

func tryURL(t *testing.T, b *brokers.Broker, config *tls.Config) error {
	t.Helper()
	if options, err := redis.ParseURL(b.URL()); err == nil {
		return tryRedis(t, b, config, brokers.User{Name: options.Username, Password: options.Password})
	}
	connection, err := amqp.DialTLS(b.URL(), config)
	if err != nil {
		return err
	}
	return connection.Close()
}

func TestASecuredBrokerDemandsACertificateOfTheClient(t *testing.T) {
	t.Parallel()
	certificates := brokers.NewCertificates(t)
	s := brokers.Security{Certificates: certificates, ClientCertificate: true}
	everyBroker(t, s, func(t *testing.T, b *brokers.Broker, tries ...try) {
		none, wrong := certificates.ClientConfig(), certificates.ClientConfig()
		none.Certificates = nil
		pair, err := tls.LoadX509KeyPair(certificates.WrongClient.Cert, certificates.WrongClient.Key)
		require.NoError(t, err)
		wrong.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		require.NoError(t, tries[0](t, b, certificates.ClientConfig(), brokers.User{}))
		require.Error(t, tries[0](t, b, none, brokers.User{}))
		require.Error(t, tries[0](t, b, wrong, brokers.User{}))
	})
}

func TestAPasswordAndACertificateAreReplacedOnTheSamePort(t *testing.T) {
	t.Parallel()
	certificates := brokers.NewCertificates(t)
	first, second := brokers.User{Name: "ferry", Password: "first"}, brokers.User{Name: "ferry", Password: oddPassword}
	s := brokers.Security{Certificates: certificates, Server: certificates.Expired, User: first}
	everyBroker(t, s, func(t *testing.T, b *brokers.Broker, tries ...try) {
		address := b.Address()
		requireCertificateError(t, tries[0](t, b, certificates.ClientConfig(), first))
		b.Secure(t, brokers.Security{Certificates: certificates, User: second})
		require.Equal(t, address, b.Address())
		b.Kill(t)
		b.Start(t)
		for _, try := range tries {
			require.NoError(t, try(t, b, certificates.ClientConfig(), second))
			require.Error(t, try(t, b, certificates.ClientConfig(), first))
		}
	})
}

func TestEachWrongCertificateOfAServerIsRefused(t *testing.T) {
	t.Parallel()
	certificates := brokers.NewCertificates(t)
	b := brokers.RedisSecured(t, brokers.Security{Certificates: certificates})
	require.NoError(t, tryRedis(t, b, certificates.ClientConfig(), brokers.User{}))
	for _, pair := range []brokers.KeyPair{certificates.WrongName, certificates.WrongCA, certificates.Expired} {
		b.Secure(t, brokers.Security{Certificates: certificates, Server: pair})
		requireCertificateError(t, tryRedis(t, b, certificates.ClientConfig(), brokers.User{}))
	}
}

// requireCertificateError holds for every way in which a certificate can be wrong, and for nothing else.
func requireCertificateError(t *testing.T, err error) {
	t.Helper()
	var failed *tls.CertificateVerificationError
	require.ErrorAs(t, err, &failed)
}

func TestAPasswordIsDemandedWithoutTLSToo(t *testing.T) {
	t.Parallel()
	right := brokers.User{Name: "default", Password: oddPassword}
	everyBroker(t, brokers.Security{User: right}, func(t *testing.T, b *brokers.Broker, tries ...try) {
		for _, try := range tries {
			require.NoError(t, try(t, b, nil, right))
			require.Error(t, try(t, b, nil, brokers.User{Name: "default", Password: "wrong"}))
		}
	})
}

func TestASecuredKafkaCanBeLinked(t *testing.T) {
	long(t)
	t.Parallel()
	certificates := brokers.NewCertificates(t)
	user := brokers.User{Name: "ferry", Password: oddPassword}
	b := brokers.KafkaSecured(t, brokers.Security{Certificates: certificates, User: user})
	wan := b.Link(t)
	try := tryKafka(wan.Address(), kafkaScram512)
	require.NoError(t, try(t, b, certificates.ClientConfig(), user))
	wan.Cut()
	require.Error(t, try(t, b, certificates.ClientConfig(), user))
}

func TestDemandsThatMakeNoSenseAreRefused(t *testing.T) {
	command := helper(t, "MQFERRY_TEST_HELPER=senseless")
	output, err := command.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "the user needs a name")
}

func poolOf(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(text))
	return pool
}
