package redisstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// dial opens a connection, ready for commands, to the first server that takes messages.
func (c *connection) dial(ctx context.Context) (net.Conn, error) {
	first := c.first.Load()
	var failed error
	for i := range c.servers {
		at := (int(first) + i) % len(c.servers)
		s := &c.servers[at]
		conn, err := s.dial(ctx, c.patience(ctx, len(c.servers)-i))
		if err == nil {
			c.first.Store(int64(at))
			return conn, nil
		}
		err = fmt.Errorf("connect to redis at %s: %w", s.address, err)
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// patience is how long one server may take when there are so many left to try before ctx ends.
func (c *connection) patience(ctx context.Context, left int) time.Duration {
	timeout := time.Duration(c.config.DialTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/time.Duration(left))
	}
	return timeout
}

// at is the address of the server that answered last.
func (c *connection) at() string { return c.current().address }

func (c *connection) current() *server { return &c.servers[c.first.Load()] }

// dial connects, encrypts what is to be, and enters.
func (s *server) dial(ctx context.Context, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dialer := net.Dialer{KeepAlive: keepAlive}
	raw, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	// What follows looks at no context.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := s.greet(ctx, raw)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, s.explain(err)
	}
	return conn, nil
}

func (s *server) greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if s.tls != nil {
		settings, err := s.tls.Client(s.host)
		if err != nil {
			return nil, err
		}
		encrypted := tls.Client(conn, settings)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = encrypted
	}
	// It reads no further than the answers to what it has asked.
	return conn, s.enter(redigo.NewConn(conn, 0, 0))
}

// asked is a command of the handshake, and what its answer means.
type asked struct {
	command string
	args    []any
	check   func(reply any, no redigo.Error) error
}

// enter logs in, chooses the database, and finds out whether the server takes messages: all in one round trip.
func (s *server) enter(conn redigo.Conn) error {
	all := s.questions()
	for _, q := range all {
		if err := conn.Send(q.command, q.args...); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	var failed error
	for _, q := range all {
		reply, err := conn.Receive()
		var no redigo.Error
		if err != nil && !errors.As(err, &no) {
			return cmp.Or(failed, err)
		}
		if failed == nil {
			failed = q.check(reply, no)
		}
	}
	return failed
}

func (s *server) questions() []asked {
	var all []asked
	if s.password != "" {
		args := []any{s.password.Reveal()}
		if s.username != "" {
			args = []any{s.username, s.password.Reveal()}
		}
		all = append(all, asked{"AUTH", args, s.checkAuth})
	}
	if s.db != 0 {
		all = append(all, asked{"SELECT", []any{s.db}, s.checkSelect})
	}
	// HELLO tells the role, and needs no right to do so. Servers before Redis 6 do not know it.
	return append(all, asked{"HELLO", []any{2}, checkRole}, asked{"PING", nil, s.checkPing})
}

func (s *server) checkAuth(_ any, no redigo.Error) error {
	if no == "" {
		return nil
	}
	return fmt.Errorf("log in as user %q: %w (check username and password; with an ACL the user must be on)", s.user(), no)
}

func (s *server) checkSelect(_ any, no redigo.Error) error {
	if no == "" {
		return nil
	}
	return fmt.Errorf("select database %d: %w", s.db, s.permit(no, "", "+select"))
}

func checkRole(reply any, _ redigo.Error) error {
	values, _ := reply.([]any)
	for i := 0; i+1 < len(values); i += 2 {
		name, _ := redigo.String(values[i], nil)
		if name != "role" {
			continue
		}
		if role, _ := redigo.String(values[i+1], nil); role == "replica" || role == "slave" {
			return errReplica
		}
	}
	return nil
}

// errReplica is that a server cannot be written to; reading for a group writes too.
var errReplica = errors.New("it is a replica, which takes no messages and no acks: give the address of the primary, or of both")

// checkPing fails for what no command could be answered with. Not everybody may ping, and not everything that is wrong concerns us.
func (s *server) checkPing(_ any, no redigo.Error) error {
	switch code(no) {
	case "NOAUTH":
		return fmt.Errorf("%w (it demands a login: set username and password)", no)
	case "LOADING", "MASTERDOWN":
		return no
	}
	return nil
}

func (s *server) user() string {
	if s.username == "" {
		return "default"
	}
	return s.username
}

// permit adds to a NOPERM what the user needs; any other error stays as it is.
func (s *server) permit(err error, keys, rights string) error {
	if !isNoPermission(err) {
		return err
	}
	if keys != "" {
		keys += " "
	}
	return fmt.Errorf("%w (the user %q lacks a right: it needs ACL SETUSER %s %s%s)", err, s.user(), s.user(), keys, rights)
}
