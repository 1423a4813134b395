package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/integration/process"
)

const (
	// rabbitScripts holds the scripts themselves. Those of the same names in PATH are Debian's wrappers, which change the user
	// and know one node per machine only.
	rabbitScripts = "/usr/lib/rabbitmq/bin"
	// The ports of a RabbitMQ that somebody else started, where nothing else is said.
	rabbitPort           = "5672"
	rabbitManagementPort = "15672"
)

// rabbitmq is a single node of RabbitMQ with the management and Shovel plugins.
type rabbitmq struct {
	settings []string
	security Security
	base     url.URL // without the host
}

func newRabbitMQ(settings ...string) rabbitmq {
	return rabbitmq{settings: settings, base: url.URL{Scheme: "amqp", User: url.UserPassword("guest", "guest"), Path: "/"}}
}

func (rabbitmq) kind() string { return "rabbitmq" }

func (rabbitmq) missing() error {
	if !process.Supported {
		return fmt.Errorf("rabbitmq-server: %w: brokers are started on Linux only", errMissing)
	}
	for _, program := range []string{"erl", rabbitScript("rabbitmq-server")} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s for rabbitmq: %w", program, errMissing)
		}
	}
	return nil
}

func rabbitScript(name string) string { return filepath.Join(rabbitScripts, name) }

// given takes the address as host:port, for the user guest, or as a URL.
func (r rabbitmq) given(address string) (software, string, error) {
	if !strings.Contains(address, "://") {
		return r, address, nil
	}
	given, err := url.Parse(address)
	if err != nil {
		return nil, "", errors.New("not an amqp:// URL") // the cause would repeat the password
	}
	host := given.Host
	if given.Port() == "" {
		host = net.JoinHostPort(given.Hostname(), rabbitPort)
	}
	if given.User == nil {
		given.User = r.base.User
	}
	r.base = *given
	return r, host, nil
}

func (r rabbitmq) secured(demands Security) software {
	r.security = demands
	r.base.Scheme = "amqp"
	if demands.tls() {
		r.base.Scheme = "amqps"
	}
	r.base.User = url.UserPassword("guest", "guest")
	if demands.user() {
		r.base.User = url.UserPassword(demands.User.Name, demands.User.Password)
	}
	return r
}

func (r rabbitmq) prepare(dir string, p ports) error {
	if err := r.security.write(dir); err != nil {
		return err
	}
	lines := []string{
		"management.tcp.ip = 127.0.0.1",
		"management.tcp.port = " + strconv.Itoa(p.control),
		// How late the management API knows of a connection, in milliseconds.
		"collect_statistics_interval = 1000",
		"load_definitions = " + definitionsFile(dir),
		"log.file = false",
		"log.console = true",
		"log.console.level = warning",
		"log.console.use_colors = off",
	}
	lines = append(lines, r.listener(dir, p)...)
	for name, text := range map[string]string{
		"enabled_plugins": "[rabbitmq_management,rabbitmq_shovel,rabbitmq_shovel_management].\n",
		"rabbitmq.conf":   strings.Join(append(lines, r.settings...), "\n") + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(definitionsFile(dir), []byte(r.definitions()), 0o600)
}

// settle takes the definitions away: a later start must not undo what a test has done to the user meanwhile.
func (rabbitmq) settle(_ context.Context, dir string, _ ports) error {
	return os.WriteFile(definitionsFile(dir), []byte("{}"), 0o600)
}

func definitionsFile(dir string) string { return filepath.Join(dir, "definitions.json") }

func (r rabbitmq) listener(dir string, p ports) []string {
	if !r.security.tls() {
		return []string{"listeners.tcp.default = " + address(p.client)}
	}
	return []string{
		"listeners.tcp = none",
		"listeners.ssl.default = " + address(p.client),
		"ssl_options.cacertfile = " + filepath.Join(dir, caFile),
		"ssl_options.certfile = " + filepath.Join(dir, serverCertFile),
		"ssl_options.keyfile = " + filepath.Join(dir, serverKeyFile),
		"ssl_options.verify = verify_peer",
		fmt.Sprintf("ssl_options.fail_if_no_peer_cert = %t", r.security.ClientCertificate),
	}
}

// definitions make the user. Settings could too, but there a # begins a comment.
func (r rabbitmq) definitions() string {
	type object map[string]string
	name := r.base.User.Username()
	password, _ := r.base.User.Password()
	text, _ := json.Marshal(map[string][]object{
		"vhosts":      {{"name": "/"}},
		"users":       {{"name": name, "password": password, "tags": "administrator"}},
		"permissions": {{"user": name, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}},
	})
	return string(text)
}

// command runs through env, whose process becomes the shell and then the Erlang machine itself: what is signalled is the broker.
func (rabbitmq) command(dir string, p ports) (string, []string) {
	return "env", append(rabbitEnvironment(dir, p),
		// Told that it runs under systemd, the script gives its process to the broker instead of staying its parent.
		"RUNNING_UNDER_SYSTEMD=true",
		// With its name and the distribution's port on the command line the node neither asks nor starts epmd, a daemon that
		// would outlive the test.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-sname "+rabbitNode(p)+" -kernel inet_dist_use_interface {127,0,0,1} "+withoutDaemon(p),
		rabbitScript("rabbitmq-server"))
}

func withoutDaemon(p ports) string {
	return "-start_epmd false -erl_epmd_port " + strconv.Itoa(p.internal)
}

func rabbitNode(p ports) string { return fmt.Sprintf("mqferry-%d@localhost", p.client) }

// rabbitEnvironment are the arguments of env that keep a node's scripts apart from all other nodes and from the machine's
// configuration.
func rabbitEnvironment(dir string, p ports) []string {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"-i",
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + dir, // of the cookie
		"ERL_CRASH_DUMP_SECONDS=0",
		"RABBITMQ_NODENAME=" + rabbitNode(p),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(p.internal),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"),
		"RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES=" + in("conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
		"RABBITMQ_CONF_ENV_FILE=" + in("rabbitmq-env.conf"),
	}
}

// control is the command line of rabbitmqctl for the node.
func (rabbitmq) control(dir string, p ports, arguments ...string) (string, []string) {
	all := append(rabbitEnvironment(dir, p),
		"RABBITMQ_CTL_ERL_ARGS=-dist_listen false "+withoutDaemon(p),
		rabbitScript("rabbitmqctl"), "--silent")
	return "env", append(all, arguments...)
}

func (rabbitmq) behindLink(p ports) int { return p.client }

func (r rabbitmq) url(address string) string {
	full := r.base
	full.Host = address
	return full.String()
}

func (r rabbitmq) managementURL(address string, p ports) string {
	host, _, _ := net.SplitHostPort(address)
	port := rabbitManagementPort
	if p.control != 0 {
		port = strconv.Itoa(p.control)
	}
	return (&url.URL{Scheme: "http", User: r.base.User, Host: net.JoinHostPort(host, port)}).String()
}

// ping opens a connection and a channel: a node that is still starting, or that stands still, does not answer.
func (r rabbitmq) ping(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	config, err := r.security.pingConfig()
	if err != nil {
		return err
	}
	connection, err := amqp.DialConfig(r.url(address), amqp.Config{
		TLSClientConfig: config,
		Dial: func(network, address string) (net.Conn, error) {
			var dialer net.Dialer
			raw, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = raw.Close() })
			}
			return raw, err
		},
	})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Channel()
	return err
}
