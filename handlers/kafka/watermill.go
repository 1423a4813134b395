package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/mqferry/mqferry/config"
)

// The stock client, watermill-kafka on sarama: as it comes, with settings that lose nothing.

const (
	// stockResend is the pause before a nacked message comes again.
	stockResend = time.Second
	// stockAnswer is how long a broker's answer is waited for.
	stockAnswer = 10 * time.Second
	// stockPatience is how long a close waits for what sarama is still trying; it ends by itself later.
	stockPatience = 5 * time.Second
)

// sarama completes a configuration with what all clients of the cluster share.
func (c Config) sarama(s *sarama.Config) *sarama.Config {
	s.ClientID = c.ClientID
	s.Net.ReadTimeout, s.Net.WriteTimeout = stockAnswer, stockAnswer
	s.Net.Proxy.Enable, s.Net.Proxy.Dialer = true, saramaDialer{c}
	s.Metadata.Retry.Backoff = 250 * time.Millisecond
	s.Metadata.Timeout = stockAnswer
	s.Metadata.AllowAutoTopicCreation = false // What is made is made as the configuration says.
	if c.SASL == nil {
		return s
	}
	s.Net.SASL.Enable = true
	s.Net.SASL.Mechanism = sarama.SASLMechanism(c.SASL.Mechanism)
	s.Net.SASL.User, s.Net.SASL.Password = c.SASL.Username, c.SASL.Password.Reveal()
	s.Net.SASL.Version = sarama.SASLHandshakeV1
	if c.SASL.Mechanism != Plain {
		s.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaScram{mechanism: c.SASL.mechanism()} }
	}
	return s
}

// saramaDialer connects as our own client does.
type saramaDialer struct{ config Config }

func (d saramaDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(d.config.DialTimeout))
	defer cancel()
	var conn net.Conn
	var err error
	if d.config.TLS != nil {
		conn, err = d.config.dialTLS(ctx, network, address)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
	}
	if err != nil {
		return nil, d.config.explained(address, err)
	}
	return conn, nil
}

// saramaScram lets franz-go's mechanisms speak for sarama, which has none of its own.
type saramaScram struct {
	mechanism sasl.Mechanism
	session   sasl.Session
	first     []byte
	done      bool
}

func (s *saramaScram) Begin(string, string, string) error {
	var err error
	s.session, s.first, err = s.mechanism.Authenticate(context.Background(), "")
	return err
}

func (s *saramaScram) Step(challenge string) (string, error) {
	if first := s.first; first != nil {
		s.first = nil
		return string(first), nil
	}
	done, response, err := s.session.Challenge([]byte(challenge))
	s.done = done
	return string(response), err
}

func (s *saramaScram) Done() bool { return s.done }

// stockError says what can be done about an error of sarama, which names no broker.
func (c Config) stockError(err error) error {
	var advice string
	switch {
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		advice = adviceCredentials
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		advice = adviceMechanism
	default:
		return err
	}
	return fmt.Errorf("kafka broker %s: %w: %s", strings.Join(c.Brokers, ", "), err, advice)
}

func (c Config) checkStockSource(s config.Source) error {
	if c.Client == Watermill && !s.Start.Time.IsZero() {
		return config.Invalid("start", "is a time, and the data center has client: watermill, which knows earliest and latest only; write one of these, or client: pipelined")
	}
	return nil
}

func (c Config) checkStockDestination(o DestinationConfig) error {
	if c.Client == Watermill && o.Linger != defaultLinger {
		return config.Invalid("linger", "is given, and the data center has client: watermill, which sends each message at once; leave it out, or write client: pipelined")
	}
	return nil
}
