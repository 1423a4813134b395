package brokers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mqferry/mqferry/integration/process"
)

const pingTimeout = 2 * time.Second

// redis is Debian's redis-server with an append-only file.
type redis struct{ arguments []string }

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

func (redis) prepare(string, ports) error { return nil }

func (r redis) command(dir string, p ports) (string, []string) {
	arguments := []string{
		"--port", strconv.Itoa(p.client), "--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--save", "",
		// A rewrite forks a child that would outlive a kill.
		"--auto-aof-rewrite-percentage", "0",
	}
	return "redis-server", append(arguments, r.arguments...)
}

func (redis) behindLink(p ports) int { return p.client }

// ping is answered with an error while the server is still loading its data.
func (redis) ping(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "+PONG" {
		return fmt.Errorf("ping was answered with %q", answer)
	}
	return nil
}
