package middleware

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/config"
)

// SeenRedisConfig is a Redis that remembers which messages were delivered.
type SeenRedisConfig struct {
	// Address is its host:port.
	Address string `yaml:"address"`
	// Username and Password are those of its ACL; none by default.
	Username string        `yaml:"username"`
	Password config.Secret `yaml:"password"`
	// DB is the number of the database; 0 by default.
	DB int `yaml:"db"`
	// TLS encrypts the connection; it is plain by default.
	TLS *config.TLS `yaml:"tls"`
	// Prefix begins the keys; "mqferry:seen:" and the route's name by default.
	Prefix string `yaml:"prefix"`
}

// Validate reports what no Redis could be reached with.
func (c SeenRedisConfig) Validate() error {
	errs := []error{config.CheckAddress("address", c.Address, "127.0.0.1:6379")}
	if c.DB < 0 {
		errs = append(errs, config.Invalid("db", "%d is negative; databases are counted from 0", c.DB))
	}
	if c.Username != "" && c.Password == "" {
		errs = append(errs, config.Invalid("password", "is missing; a username goes with one"))
	}
	return errors.Join(errs...)
}

const (
	// seenTimeout bounds one question to the Redis.
	seenTimeout = 5 * time.Second
	// seenBatch is how many questions go in one pipeline at most.
	seenBatch = 500
)

// seenRedis asks and tells a Redis, many messages at a time.
type seenRedis struct {
	client *redis.Client
	prefix string
	ttl    time.Duration
	asked  chan seenQuestion
	stop   context.CancelFunc
	done   chan struct{}
}

// seenQuestion is about one id: whether it is known, or, with mark, that it is to be.
type seenQuestion struct {
	id     string
	mark   bool
	answer chan seenAnswer
}

type seenAnswer struct {
	known bool
	err   error
}

func newSeenRedis(c SeenRedisConfig, route string, ttl time.Duration) *seenRedis {
	o := &redis.Options{
		Addr: c.Address, Username: c.Username, Password: c.Password.Reveal(), DB: c.DB,
		Protocol: 2, DisableIdentity: true, PoolSize: 2, ContextTimeoutEnabled: true,
		DialTimeout: seenTimeout, ReadTimeout: seenTimeout, WriteTimeout: seenTimeout,
	}
	if c.TLS != nil {
		o.Dialer = encrypted(*c.TLS)
	}
	s := &seenRedis{client: redis.NewClient(o), prefix: c.Prefix, ttl: ttl, asked: make(chan seenQuestion), done: make(chan struct{})}
	if s.prefix == "" {
		s.prefix = "mqferry:seen:" + route + ":"
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	return s
}

// encrypted dials with the certificates as they are at that time.
func encrypted(t config.TLS) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		settings, err := t.Client(host)
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: settings}).DialContext(ctx, network, address)
	}
}

var errSeenClosed = errors.New("the store is closed")

func (s *seenRedis) ask(ctx context.Context, q seenQuestion) seenAnswer {
	q.answer = make(chan seenAnswer, 1)
	select {
	case s.asked <- q:
		return <-q.answer
	case <-ctx.Done():
		return seenAnswer{err: ctx.Err()}
	case <-s.done:
		return seenAnswer{err: errSeenClosed}
	}
}

func (s *seenRedis) seen(ctx context.Context, id string) (bool, error) {
	a := s.ask(ctx, seenQuestion{id: id})
	return a.known, a.err
}

func (s *seenRedis) mark(ctx context.Context, id string) error {
	return s.ask(ctx, seenQuestion{id: id, mark: true}).err
}

// run puts the questions that wait into one pipeline, and then those that came meanwhile into the next.
func (s *seenRedis) run(ctx context.Context) {
	defer close(s.done)
	for {
		batch := make([]seenQuestion, 0, seenBatch)
		select {
		case q := <-s.asked:
			batch = append(batch, q)
		case <-ctx.Done():
			return
		}
		for waiting := true; waiting && len(batch) < seenBatch; {
			select {
			case q := <-s.asked:
				batch = append(batch, q)
			default:
				waiting = false
			}
		}
		s.answer(ctx, batch)
	}
}

func (s *seenRedis) answer(ctx context.Context, batch []seenQuestion) {
	ctx, cancel := context.WithTimeout(ctx, seenTimeout)
	defer cancel()
	pipeline := s.client.Pipeline()
	results := make([]redis.Cmder, len(batch))
	for i, q := range batch {
		if q.mark {
			results[i] = pipeline.Set(ctx, s.prefix+q.id, 1, s.ttl)
		} else {
			results[i] = pipeline.Exists(ctx, s.prefix+q.id)
		}
	}
	// Each command has its own error, too.
	_, _ = pipeline.Exec(ctx)
	for i, q := range batch {
		a := seenAnswer{err: results[i].Err()}
		if a.err != nil {
			a.err = fmt.Errorf("redis at %s: %w", s.client.Options().Addr, a.err)
		}
		if n, ok := results[i].(*redis.IntCmd); ok {
			a.known = n.Val() > 0
		}
		q.answer <- a
	}
}

func (s *seenRedis) close() error {
	s.stop()
	<-s.done
	return s.client.Close()
}
