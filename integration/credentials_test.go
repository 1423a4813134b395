package integration_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration"
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/integration/link"
)

const (
	// canary is in every password of these tests, beside all that a URL gives a meaning to: whatever shows it, shows a password.
	canary        = "c4n4ry"
	ferryPassword = "p@ss:/%rd#?" + canary + "-ferry"
	clerkPassword = "%#?@:/" + canary + "-clerk"
	otherPassword = canary + "-another"
)

// bound is how many connections may be tried in so long a time.
func bound(d time.Duration) int { return 15 + int(max(0, d-10*time.Second)/(600*time.Millisecond)) }

// door is a way of the ferry to the guarded broker: a data center of its config, with a route in each direction.
type door struct {
	name    string
	broker  string // As the config file describes it.
	link    *link.Link
	in, out *integration.Route
	why     string // A part of the error that stands in the way at first; empty for none.
}

func (d *door) routes() []*integration.Route { return []*integration.Route{d.in, d.out} }

// vault is a broker that demands a certificate and a login, and a ferry with several doors to it.
type vault struct {
	*integration.Secured
	t            *testing.T
	certificates *brokers.Certificates
	demands      brokers.Security
	ca           string // What one of the doors trusts; at first the wrong one.
	near         *brokers.Broker
	doors        []*door
	config       string
	ferry        *integration.Ferry
	began        time.Time
	said         strings.Builder // All that the program said, but for its log.
}

func newVault(t *testing.T, kind string) *vault {
	t.Helper()
	v := &vault{t: t, certificates: brokers.NewCertificates(t), near: brokers.Redis(t, "a"), ca: filepath.Join(t.TempDir(), "ca.pem")}
	v.demands = brokers.Security{
		Certificates: v.certificates, ClientCertificate: true, User: brokers.User{Name: "ferry", Password: ferryPassword},
	}
	if kind == "redis" {
		// Where the user default has no rights, Redis 7.0 leaves out of its append-only file at a start what was done in a MULTI: a group's position too.
		v.demands.User.Name = "default"
	}
	v.Secured = integration.NewSecured(t, kind, v.demands)
	v.SetPassword(t, "clerk", otherPassword)
	v.trust(v.certificates.OtherCA)
	return v
}

// trust puts an authority into the file of the door that trusts the wrong one.
func (v *vault) trust(ca string) {
	v.t.Helper()
	content, err := os.ReadFile(ca)
	require.NoError(v.t, err)
	require.NoError(v.t, os.WriteFile(v.ca, content, 0o600))
}

// door adds a data center. How says in which form the password is given: "" for the option; "raw" and "escaped" for a URL; with Kafka the mechanism.
func (v *vault) door(name, tls, user, password, how, why string) *door {
	v.t.Helper()
	l, err := link.New("127.0.0.1:0", v.Address())
	require.NoError(v.t, err)
	v.t.Cleanup(l.Close)
	d := &door{name: name, link: l, why: why}
	options := fmt.Sprintf("tls: %s, username: %s, password: %q", tls, user, password)
	address := map[string]string{"rabbitmq": fmt.Sprintf("url: %q", "amqps://"+l.Address()+"/"), "redis": fmt.Sprintf("address: %q", l.Address())}[v.Kind]
	schemes := map[string]string{"rabbitmq": "amqps", "redis": "rediss"}
	switch {
	case v.Kind == "kafka":
		if how == "" {
			how = "SCRAM-SHA-256"
		}
		options = fmt.Sprintf("tls: %s, sasl: {mechanism: %s, username: %s, password: %q}", tls, how, user, password)
		address = fmt.Sprintf("brokers: [%q]", l.Address())
	case how == "raw":
		options, address = "tls: "+tls, fmt.Sprintf("url: %q", schemes[v.Kind]+"://"+user+":"+password+"@"+l.Address()+"/")
	case how == "escaped":
		u := url.URL{Scheme: schemes[v.Kind], User: url.UserPassword(user, password), Host: l.Address(), Path: "/"}
		options, address = "tls: "+tls, fmt.Sprintf("url: %q", u.String())
	}
	d.broker = fmt.Sprintf("%s: {%s, %s}", v.Kind, address, options)
	d.in = integration.NewRoute(integration.NewRedis(v.t, "near", v.near), v.End(v.t, name))
	d.out = integration.NewRoute(v.End(v.t, name), integration.NewRedis(v.t, "near", v.near))
	v.doors = append(v.doors, d)
	return d
}

// furnish adds all doors: those with the right credentials, and one for each thing that can be wrong.
func (v *vault) furnish() (right []*door, authority, name, login, certificate *door) {
	v.t.Helper()
	c := v.certificates
	mine := fmt.Sprintf("cert: %q, key: %q", c.Client.Cert, c.Client.Key)
	good := fmt.Sprintf("{ca: %q, %s}", c.CA, mine)
	forms := []string{"", "raw", "escaped"}
	if v.Kind == "kafka" {
		forms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	}
	for i, form := range forms {
		right = append(right, v.door(fmt.Sprintf("right-%d", i), good, v.demands.User.Name, ferryPassword, form, ""))
	}
	no := map[string]string{"kafka": "SASL_AUTHENTICATION_FAILED", "rabbitmq": "username or password not allowed", "redis": "WRONGPASS"}[v.Kind]
	authority = v.door("wrong-authority", fmt.Sprintf("{ca: %q, %s}", v.ca, mine), v.demands.User.Name, ferryPassword, "", "unknown authority")
	name = v.door("wrong-name", fmt.Sprintf("{ca: %q, server_name: elsewhere.example, %s}", c.CA, mine), v.demands.User.Name, ferryPassword, "", "elsewhere.example")
	login = v.door("wrong-password", good, "clerk", clerkPassword, "", no)
	// A broker's complaint about it may get lost when it hangs up: then no more is known than where.
	where := map[string]string{"kafka": "kafka broker 127.0.0.1:", "rabbitmq": "connect to rabbitmq at amqps://127.0.0.1:", "redis": "set tls.cert and tls.key"}[v.Kind]
	certificate = v.door("no-certificate", fmt.Sprintf("{ca: %q}", c.CA), v.demands.User.Name, ferryPassword, "", where)
	return right, authority, name, login, certificate
}

// open starts the ferry.
func (v *vault) open() {
	v.t.Helper()
	site, broker := v.doors[0].out.To.Site()
	text := fmt.Sprintf("datacenters:\n  %s: {%s}\n", site, broker)
	routes := "routes:\n"
	for _, d := range v.doors {
		text += fmt.Sprintf("  %s: {%s}\n", d.name, d.broker)
		routes += fmt.Sprintf("  - {name: %s, from: near/%s, to: %s/%s}\n", d.in.Name, d.in.From.Topic(), d.name, d.in.To.Topic())
		routes += fmt.Sprintf("  - {name: %s, from: %s/%s, to: near/%s}\n", d.out.Name, d.name, d.out.From.Topic(), d.out.To.Topic())
	}
	v.config = text + routes
	v.ferry = integration.RunAtDebug(v.t, v.config)
	v.began = time.Now()
}

// send gives every route of the doors something to carry.
func (v *vault) send(doors ...*door) {
	v.t.Helper()
	for _, d := range doors {
		d.in.Send(v.t, 100)
		d.out.Send(v.t, 100)
	}
}

// crossed waits until all that was sent is through.
func (v *vault) crossed(doors ...*door) {
	v.t.Helper()
	for _, d := range doors {
		for _, r := range d.routes() {
			r.WaitAcked(v.t, time.Minute)
		}
	}
}

// shut waits until the doors' routes are in trouble, each with the door's name and the word in it.
func (v *vault) shut(word string, doors ...*door) {
	v.t.Helper()
	for _, d := range doors {
		for _, r := range d.routes() {
			v.ferry.WaitTrouble(v.t, r, time.Minute, d.name+"/", word)
		}
	}
	v.look()
}

// look keeps what the pages say.
func (v *vault) look() {
	v.t.Helper()
	for _, page := range []string{"/", "/readyz", "/healthz", "/metrics"} {
		v.said.WriteString(v.ferry.Page(v.t, page))
	}
}

// validate wants "validate --connect" to tell of exactly the doors that are shut.
func (v *vault) validate(shut ...*door) {
	v.t.Helper()
	code, text := integration.Validate(v.t, v.config, "--connect")
	v.said.WriteString(text)
	require.Equal(v.t, 1, code, text)
	require.Contains(v.t, text, fmt.Sprintf("not ok: %d of %d routes", 2*len(shut), 2*len(v.doors)))
	for _, d := range shut {
		n := 0
		for line := range strings.Lines(text) {
			if strings.Contains(line, d.name+"/") {
				require.Contains(v.t, line, "error: ")
				require.Contains(v.t, line, d.why)
				n++
			}
		}
		require.Equal(v.t, 3, n, "lines about %s, as a source with its poison queue, and as a destination, in:\n%s", d.name, text)
	}
}

// entry is a line of the log.
type entry struct {
	Level, Msg, Route, DataCenter, End, Error, Trouble string
}

func (v *vault) log() (all []entry) {
	v.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(v.ferry.Log(v.t)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		require.NoError(v.t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		all = append(all, e)
	}
	require.NoError(v.t, lines.Err())
	return all
}

// warned counts the warnings of each end that it is down, since the n-th line of the log.
func (v *vault) warned(since int, d *door) map[string]int {
	v.t.Helper()
	times := map[string]int{}
	for _, e := range v.log()[since:] {
		if e.DataCenter == d.name && e.Level == "WARN" {
			require.Equal(v.t, "down, trying again", e.Msg)
			times[strings.TrimSpace(e.Route+" "+e.End)]++
		}
	}
	return times
}

// requireCalm wants one warning for a door that was shut from the start, with its reason, and few connections.
func (v *vault) requireCalm(d *door) {
	v.t.Helper()
	lasted := time.Since(v.began)
	require.LessOrEqual(v.t, d.link.Accepted(), bound(lasted), "connections of %s in %v", d.name, lasted)
	require.Equal(v.t, map[string]int{"": 1}, v.warned(0, d), d.name)
	lines := 0
	for _, e := range v.log() {
		if e.DataCenter == d.name && e.Level == "WARN" {
			require.Contains(v.t, e.Error, d.why, d.name)
			require.NotContains(v.t, e.Error, "\n")
		}
		if strings.Contains(e.DataCenter+" "+e.Error+" "+e.Trouble, d.name) {
			lines++
		}
	}
	// One of its own, and one of each of its routes every 10 s.
	require.LessOrEqual(v.t, lines, 1+2*(1+int(lasted/(10*time.Second))), "lines about %s", d.name)
}

// told waits until the log names the routes of a door that is shut, the door, and why.
func (v *vault) told(d *door) {
	v.t.Helper()
	for _, r := range d.routes() {
		integration.Eventually(v.t, time.Minute, func() string {
			for _, e := range v.log() {
				if e.Level == "WARN" && e.Route == r.Name && strings.Contains(e.Trouble, d.name+"/") && strings.Contains(e.Trouble, d.why) {
					return ""
				}
			}
			return "the log does not say that " + r.Name + " is in trouble, and why"
		})
	}
}

// requireOnce wants all that was sent to be there once.
func (v *vault) requireOnce(doors ...*door) {
	v.t.Helper()
	for _, d := range doors {
		for _, r := range d.routes() {
			r.WantExactlyOnce(v.t)
		}
	}
}

// requireSilent wants no password, in whatever form, in the text.
func requireSilent(t *testing.T, text string) {
	t.Helper()
	for _, password := range []string{ferryPassword, clerkPassword, otherPassword} {
		for _, form := range []string{
			canary, password, url.QueryEscape(password), url.PathEscape(password), fmt.Sprintf("%x", password),
			base64.StdEncoding.EncodeToString([]byte(password)), base64.StdEncoding.EncodeToString([]byte("\x00ferry\x00" + password)),
		} {
			at := strings.Index(text, form)
			require.Negative(t, at, "a password is shown, here: %.200q", text[max(0, at-100):])
		}
	}
}

func TestCredentials(t *testing.T) {
	for _, kind := range []string{"kafka", "rabbitmq", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testCredentials(t, newVault(t, kind))
		})
	}
}

// TestNoPasswordIsShown has passwords that are wrong, which servers like to repeat, and a program that dies.
func TestNoPasswordIsShown(t *testing.T) {
	t.Setenv("FERRY_PASSWORD", ferryPassword)
	kafka, rabbitmq, redis := brokers.Kafka(t, "a").Address(), brokers.RabbitMQ(t, "a").Address(), brokers.Redis(t, "a").Address()
	centers := fmt.Sprintf(`
  mechanism: {kafka: {brokers: [%[1]q], sasl: {mechanism: PLAIN, username: ferry, password: "${FERRY_PASSWORD}"}}}
  beside: {rabbitmq: {url: "amqp://%[2]s/", username: ferry, password: "${FERRY_PASSWORD}"}}
  inside: {rabbitmq: {url: "amqp://ferry:%[4]s@%[2]s/"}}
  encrypted: {rabbitmq: {url: "amqps://ferry:%[4]s@%[2]s/"}}
  user: {redis: {address: %[3]q, username: ferry, password: "${FERRY_PASSWORD}"}}
  url: {redis: {url: "redis://:%[4]s@%[3]s/0"}}
  nowhere: {redis: {url: "redis://ferry:%[4]s@host.invalid:1/0"}}`, kafka, rabbitmq, redis, ferryPassword)
	names := []string{"mechanism", "beside", "inside", "encrypted", "user", "url", "nowhere"}
	text := "datacenters:" + centers + "\n  near: {redis: {address: \"" + redis + "\"}}\nroutes:\n"
	for _, name := range names {
		text += fmt.Sprintf("  - {name: to-%[1]s, from: near/to-%[1]s, to: %[1]s/x}\n  - {name: from-%[1]s, from: %[1]s/x, to: near/from-%[1]s}\n", name)
	}
	ferry := integration.RunAtDebug(t, text)
	for _, name := range names {
		ferry.WaitTrouble(t, &integration.Route{Name: "to-" + name}, time.Minute, name+"/x is not connected: ")
	}
	var said strings.Builder
	for _, arguments := range [][]string{nil, {"--connect"}, {"--schema"}} {
		code, output := integration.Validate(t, text, arguments...)
		said.WriteString(output)
		require.Equal(t, len(arguments) > 0 && arguments[0] == "--connect", code == 1, output)
	}
	for _, page := range []string{"/", "/readyz", "/healthz", "/metrics"} {
		said.WriteString(ferry.Page(t, page))
	}
	require.Contains(t, said.String(), "not ok: 14 of 14 routes")
	// What cannot be read is not run, and what is said of it goes to stderr.
	for _, url := range []string{"ferry:" + ferryPassword + "@" + redis, "redis://ferry:" + canary, "redis://" + canary + "@", "amqp://ferry:" + canary + "/x"} {
		code, output := integration.Validate(t, strings.Replace(text, "near: {redis: {address: \""+redis+"\"}}", fmt.Sprintf("near: {redis: {url: %q}}", url), 1))
		require.Equal(t, 2, code, output)
		said.WriteString(output)
	}
	ferry.Dump(t)
	log := ferry.Log(t)
	require.Contains(t, log, "SIGQUIT: quit")
	require.Contains(t, log, "goroutine ")
	requireSilent(t, log)
	requireSilent(t, said.String())
}

// testCredentials opens what is shut one after the other, and shuts what is open. In a short run a Kafka and a RabbitMQ, which take long to start, are
// started again only once.
func testCredentials(t *testing.T, v *vault) {
	right, authority, name, login, certificate := v.furnish()
	v.send(v.doors...)
	v.open()

	// From the start.
	v.crossed(right...)
	shut := []*door{authority, name, login, certificate}
	for _, d := range shut {
		v.shut(d.why, d)
	}
	v.validate(shut...)
	<-time.After(time.Until(v.began.Add(10 * time.Second))) // For what is counted.
	for _, d := range shut {
		v.told(d)
		v.requireCalm(d)
	}

	// Mended while the broker runs.
	v.trust(v.certificates.CA)
	v.SetPassword(t, "clerk", clerkPassword)
	v.crossed(authority, login)

	// Shut while they run, by the broker's certificate.
	running := append([]*door{authority, login}, right...)
	since := len(v.log())
	if !brokers.Brief() || v.Kind == "redis" {
		v.show(v.certificates.Expired)
		v.send(running...)
		v.shut("expired", running...)
		v.show(v.certificates.WrongName)
		v.crossed(name)
		v.shut("cannot validate certificate", running...)
	}
	// By the password.
	v.SetPassword(t, "clerk", otherPassword)
	v.demands.ClientCertificate = false
	v.show(brokers.KeyPair{})
	v.shut(login.why, login)
	v.send(right...)
	v.crossed(authority, certificate)
	v.crossed(right...)
	v.SetPassword(t, "clerk", clerkPassword)
	v.crossed(login)
	for _, d := range running {
		for end, n := range v.warned(since, d) {
			require.LessOrEqual(t, n, 2, "warnings of %s, %s", d.name, end)
		}
		require.LessOrEqual(t, d.link.Accepted(), 4*bound(time.Since(v.began)), "connections of %s", d.name)
	}

	v.look()
	v.ferry.Stop(t, stopTime)
	v.requireOnce(append(running, certificate)...)
	if !brokers.Brief() || v.Kind == "redis" {
		v.requireOnce(name)
	}
	requireSilent(t, v.ferry.Log(t))
	requireSilent(t, v.said.String())
}

// show starts the broker again with that certificate.
func (v *vault) show(pair brokers.KeyPair) {
	v.t.Helper()
	v.demands.Server = pair
	v.Demand(v.t, v.demands)
}
