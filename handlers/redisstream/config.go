package redisstream

import (
	"errors"
	"strconv"
	"time"

	"github.com/mqferry/mqferry/config"
)

// Client says what reads and writes the streams.
type Client string

// The clients.
const (
	// Pipelined is our own: many messages on the wire.
	Pipelined Client = "pipelined"
	// Watermill is the stock package watermill-redisstream: one message at a time.
	Watermill Client = "watermill"
)

// Config is what a data center with a Redis is made of.
type Config struct {
	// Address are the servers, each host:port. One is tried after the other, the one that answered last comes first; of a primary and its replicas the
	// primary is used.
	Address []string `yaml:"address"`
	// URL are the servers, instead of address: each redis://user:password@host:port/db, or rediss:// for TLS. The port is 6379 by default.
	URL []config.URL `yaml:"url"`
	// Username is the ACL user; empty is the default user. Like the password and db it takes the place of that in the URLs.
	Username string `yaml:"username"`
	// Password is that user's password; empty means that none is asked for.
	Password config.Secret `yaml:"password"`
	// DB is the number of the database; 0 by default.
	DB *int `yaml:"db"`
	// TLS encrypts the connections and says whom to trust; "tls: {}" trusts the system's authorities. By default only rediss:// is encrypted.
	TLS *config.TLS `yaml:"tls"`
	// Client is pipelined, the default, or watermill: the stock package, one message at a time.
	Client Client `yaml:"client"`
	// DialTimeout bounds how long one attempt to connect to one server may take, the handshakes included; 5s by default.
	DialTimeout config.Duration `yaml:"dial_timeout"`
}

// Validate reports what no Redis could be reached with.
func (c Config) Validate() error {
	var errs []error
	switch {
	case len(c.Address)+len(c.URL) == 0:
		errs = append(errs, config.Invalid("address", `is missing; write for example "127.0.0.1:6379"`))
	case len(c.Address) > 0 && len(c.URL) > 0:
		errs = append(errs, config.Invalid("url", "is given beside address; write one of the two"))
	}
	for _, address := range c.Address {
		errs = append(errs, config.CheckAddress("address", address, "127.0.0.1:6379"))
	}
	for _, u := range c.URL {
		errs = append(errs, c.checkURL(u))
	}
	if c.DB != nil && *c.DB < 0 {
		errs = append(errs, config.Invalid("db", "%d is negative; databases are counted from 0", *c.DB))
	}
	for _, s := range c.servers() {
		if s.username != "" && s.password == "" {
			errs = append(errs, config.Invalid("password", "is missing; a username goes with one"))
			break
		}
	}
	if c.Client != Pipelined && c.Client != Watermill {
		errs = append(errs, config.Invalid("client", "%q is not one of pipelined, watermill", string(c.Client)))
	}
	if c.DialTimeout <= 0 {
		errs = append(errs, config.Invalid("dial_timeout", `is 0; write for example "5s"`))
	}
	return errors.Join(errs...)
}

func (c Config) checkURL(u config.URL) error {
	err := u.Check(config.Scheme{
		Plain: "redis", Encrypted: "rediss", Options: "db, dial_timeout and tls",
		Example: "redis://user:password@127.0.0.1:6379", Port: defaultPort,
	}, c.TLS != nil)
	if _, number := database(u); err == nil && !number {
		err = config.Invalid("url", "has a path that is not the number of a database, as in redis://127.0.0.1:6379/3")
	}
	return err
}

// defaultPort is that of an address without one.
const defaultPort = "6379"

// server is one of the servers of a data center, with how to enter it.
type server struct {
	address  string // host:port.
	host     string
	tls      *config.TLS // Nil without encryption.
	username string
	password config.Secret
	db       int
}

// servers lists where to connect to, in the order of the file.
func (c Config) servers() []server {
	var all []server
	for _, address := range c.Address {
		host, address := config.SplitAddress(address, defaultPort)
		all = append(all, server{address: address, host: host, tls: c.TLS})
	}
	for _, u := range c.URL {
		s := server{username: u.Username, password: u.Password}
		s.host, s.address = config.SplitAddress(u.Host, defaultPort)
		s.db, _ = database(u)
		if u.Scheme == "rediss" {
			s.tls = &config.TLS{}
			if c.TLS != nil {
				s.tls = c.TLS
			}
		}
		all = append(all, s)
	}
	for i := range all {
		s := &all[i]
		if c.Username != "" {
			s.username = c.Username
		}
		if c.Password != "" {
			s.password = c.Password
		}
		if c.DB != nil {
			s.db = *c.DB
		}
	}
	return all
}

// database gives the number of the database that a URL names; ok is false when its path is something else.
func database(u config.URL) (n int, ok bool) {
	if u.Path == "" {
		return 0, true
	}
	n, err := strconv.Atoi(u.Path)
	return n, err == nil && n >= 0
}

// DefaultConfig returns the options of a data center, a source and a destination that the file says nothing about.
func DefaultConfig() (Config, SourceConfig, DestinationConfig) {
	return Config{DialTimeout: config.Duration(5 * time.Second), Client: Pipelined},
		SourceConfig{Lease: config.Duration(5 * time.Second), ClaimIdle: config.Duration(60 * time.Second)},
		DestinationConfig{
			Format: WatermillFormat, PayloadField: payloadField,
			WaitTimeout: config.Duration(time.Second), ConfirmTimeout: config.Duration(30 * time.Second),
		}
}
