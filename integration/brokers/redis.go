package brokers

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mqferry/mqferry/integration/process"
)

const (
	pingTimeout      = 2 * time.Second
	redisDefaultUser = "default"
)

// redis is Debian's redis-server with an append-only file.
type redis struct {
	arguments []string
	security  Security
}

func (redis) kind() string { return "redis" }

func (r redis) given(address string) (software, string, error) { return r, address, nil }

func (redis) missing() error {
	if !process.Supported {
		return fmt.Errorf("redis-server: %w: brokers are started on Linux only", errMissing)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("redis-server: %w", errMissing)
	}
	return nil
}

func (r redis) secured(demands Security) software {
	r.security = demands
	return r
}

func (r redis) prepare(dir string, _ ports) error { return r.security.write(dir) }

func (redis) settle(context.Context, string, ports) error { return nil }

func (r redis) command(dir string, p ports) (string, []string) {
	arguments := []string{
		"--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--save", "",
		// A rewrite forks a child that would outlive a kill.
		"--auto-aof-rewrite-percentage", "0",
	}
	arguments = append(arguments, r.listener(dir, p)...)
	arguments = append(arguments, r.user()...)
	return "redis-server", append(arguments, r.arguments...)
}

func (r redis) listener(dir string, p ports) []string {
	if !r.security.tls() {
		return []string{"--port", strconv.Itoa(p.client)}
	}
	demand := "no"
	if r.security.ClientCertificate {
		demand = "yes"
	}
	return []string{
		"--port", "0",
		"--tls-port", strconv.Itoa(p.client),
		"--tls-cert-file", filepath.Join(dir, serverCertFile),
		"--tls-key-file", filepath.Join(dir, serverKeyFile),
		"--tls-ca-cert-file", filepath.Join(dir, caFile),
		"--tls-auth-clients", demand,
	}
}

// user gives the password as its hash: the command line of a process is not secret, and a hash needs no quotes.
func (r redis) user() []string {
	if !r.security.user() {
		return nil
	}
	hash := fmt.Sprintf("#%x", sha256.Sum256([]byte(r.security.User.Password)))
	arguments := []string{"--user", r.security.User.Name, "reset", "on", hash, "~*", "&*", "+@all"}
	if r.security.User.Name != redisDefaultUser {
		arguments = append([]string{"--user", redisDefaultUser, "off"}, arguments...)
	}
	return arguments
}

func (r redis) url(address string) string {
	full := url.URL{Scheme: "redis", Host: address}
	if r.security.tls() {
		full.Scheme = "rediss"
	}
	if r.security.user() {
		full.User = url.UserPassword(r.security.User.Name, r.security.User.Password)
	}
	return full.String()
}

func (redis) behindLink(p ports) int { return p.client }

// ping is answered with an error while the server is still loading its data.
func (r redis) ping(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := r.dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	answers := bufio.NewReader(conn)
	if r.security.user() {
		if err := ask(conn, answers, "+OK", "AUTH", r.security.User.Name, r.security.User.Password); err != nil {
			return err
		}
	}
	return ask(conn, answers, "+PONG", "PING")
}

func (r redis) dial(ctx context.Context, address string) (net.Conn, error) {
	config, err := r.security.pingConfig()
	if err != nil {
		return nil, err
	}
	if config == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
}

// ask sends a command and expects a simple answer.
func ask(conn io.Writer, answers *bufio.Reader, want string, command ...string) error {
	text := fmt.Sprintf("*%d\r\n", len(command))
	for _, word := range command {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	answer, err := answers.ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != want {
		return fmt.Errorf("%s was answered with %q", command[0], answer)
	}
	return nil
}
