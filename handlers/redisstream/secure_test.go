package redisstream_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/redisstream"
	"github.com/mqferry/mqferry/integration/brokers"
)

// canary is a password with everything that a URL gives a meaning to.
const canary = "ca@na:ry/%41#4?711"

func parseURL(t *testing.T, text string) config.URL {
	t.Helper()
	var u config.URL
	require.NoError(t, u.UnmarshalText([]byte(text)))
	return u
}

func both(t *testing.T, do func(*testing.T, redisstream.Client)) {
	t.Helper()
	for _, c := range []redisstream.Client{redisstream.Pipelined, redisstream.Watermill} {
		t.Run("client "+string(c), func(t *testing.T) { do(t, c) })
	}
}

func TestARouteWithTLSAndALoginAtBothEnds(t *testing.T) {
	both(t, func(t *testing.T, client redisstream.Client) {
		certs := brokers.NewCertificates(t)
		server, address := encrypted(t, certs, certs.WrongName,
			"--aclfile", aclFile(t, "user default on nopass ~* &* +@all", "user ferry on >"+canary+" ~* &* +@all"))
		w := newWorld(t, server.Address(), server.Address())
		w.change = []func(*redisstream.Config){func(c *redisstream.Config) {
			c.Address, c.Client = nil, client
			c.URL = []config.URL{parseURL(t, "rediss://ferry:"+strings.ReplaceAll(canary, "%", "%25")+"@"+address+"/")}
			c.TLS = clientTLS(certs)
			c.TLS.ServerName = "elsewhere.example"
		}}
		w.produce(0, 50)
		stop := w.relay()
		w.settled(50)
		stop()
		w.requireNoLoss(50, 0)
		clients, err := w.client.ClientList(t.Context()).Result()
		require.NoError(t, err)
		require.NotContains(t, clients, "user=ferry", "a socket was left open")
	})
}

func TestOptionsBesideAURLTakeThePlaceOfWhatItHolds(t *testing.T) {
	server := brokers.RedisOwn(t, "--aclfile", aclFile(t, "user default on nopass ~* &* +@all", "user ferry on >"+canary+" ~* &* +@all"))
	w := newWorld(t, server.Address(), server.Address())
	number := 5
	w.change = []func(*redisstream.Config){func(c *redisstream.Config) {
		c.Address, c.URL = nil, []config.URL{parseURL(t, "redis://nobody:nothing@"+server.Address()+"/3")}
		c.Username, c.Password, c.DB = "ferry", canary, &number
	}}
	require.NoError(t, w.publisher().Publish(w.out, message.NewMessage("id", []byte("payload"))))
	fifth := redis.NewClient(&redis.Options{Addr: server.Address(), DB: number})
	defer fifth.Close()
	n, err := fifth.XLen(t.Context(), w.out).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// TestTroubleAtTheDoorIsOneClearError has what can go wrong before a server lets anybody in.
func TestTroubleAtTheDoorIsOneClearError(t *testing.T) {
	certs := brokers.NewCertificates(t)
	good, secured := encrypted(t, certs, certs.Server,
		"--aclfile", aclFile(t, "user default on nopass ~* &* +@all", "user ferry on >"+canary+" ~* &* +@all -select"))
	_, expired := encrypted(t, certs, certs.Expired)
	locked := miniredis.RunT(t)
	locked.RequireAuth("another")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	login := func(c *redisstream.Config, password config.Secret) { c.Username, c.Password = "ferry", password }
	for name, c := range map[string]struct {
		address string
		change  func(*redisstream.Config)
		want    []string
	}{
		"another authority": {secured, func(c *redisstream.Config) {
			c.TLS = clientTLS(certs)
			c.TLS.CA = config.Path(certs.OtherCA)
		}, []string{"unknown authority", "set tls.ca"}},
		"another name": {secured, func(c *redisstream.Config) {
			c.TLS = clientTLS(certs)
			c.TLS.ServerName = "valkey.example"
		}, []string{"valkey.example", "set tls.server_name"}},
		"a certificate that has expired": {expired, func(c *redisstream.Config) { c.TLS = clientTLS(certs) }, []string{"expired", "replace the server's certificate"}},
		"no certificate of our own": {secured, func(c *redisstream.Config) {
			c.TLS = &config.TLS{CA: config.Path(certs.CA)}
		}, []string{"set tls.cert and tls.key"}},
		"a file that is gone": {secured, func(c *redisstream.Config) {
			c.TLS = &config.TLS{CA: "gone.crt"}
		}, []string{"gone.crt: no such file"}},
		"no TLS at a port that has it": {secured, func(*redisstream.Config) {}, []string{"set tls or write rediss://"}},
		"TLS at a port without it": {good.Address(), func(c *redisstream.Config) {
			c.TLS, c.DialTimeout = clientTLS(certs), config.Duration(500*time.Millisecond)
		}, []string{"leave out tls"}},
		"a server that never answers": {silent.Addr().String(), func(c *redisstream.Config) {
			c.DialTimeout = config.Duration(100 * time.Millisecond)
		}, []string{"deadline exceeded", "set tls or write rediss://"}},
		"a server that never answers a handshake": {silent.Addr().String(), func(c *redisstream.Config) {
			c.TLS, c.DialTimeout = &config.TLS{}, config.Duration(100*time.Millisecond)
		}, []string{"deadline exceeded", "leave out tls"}},
		"another password": {good.Address(), func(c *redisstream.Config) { login(c, canary+"-wrong") }, []string{
			`log in as user "ferry"`, "WRONGPASS", "check username and password",
		}},
		"no password": {locked.Addr(), func(*redisstream.Config) {}, []string{"NOAUTH", "set username and password"}},
		"no right to choose the database": {good.Address(), func(c *redisstream.Config) {
			login(c, canary)
			c.DB = new(int)
			*c.DB = 3
		}, []string{"select database 3", "NOPERM", "ACL SETUSER ferry +select"}},
		"no such database": {good.Address(), func(c *redisstream.Config) {
			c.DB = new(int)
			*c.DB = 99
		}, []string{"select database 99", "out of range"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _, _ := redisstream.DefaultConfig()
			o.Address = []string{c.address}
			c.change(&o)
			_, err := redisstream.Open(t.Context(), o, handlers.Settings{DataCenter: "here"})
			require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err), "%v", err)
			for _, want := range append(c.want, "connect to redis at "+c.address) {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, o, o), canary)
		})
	}
}

// connections counts the connections that a server has ever taken.
func connections(t *testing.T, c *redis.Client) int {
	t.Helper()
	info, err := c.Info(t.Context(), "stats").Result()
	require.NoError(t, err)
	_, after, found := strings.Cut(info, "total_connections_received:")
	require.True(t, found)
	var n int
	_, err = fmt.Sscan(after, &n)
	require.NoError(t, err)
	return n
}

func TestACertificateThatIsReplacedIsUsedFromThenOn(t *testing.T) {
	both(t, func(t *testing.T, client redisstream.Client) {
		certs := brokers.NewCertificates(t)
		server, address := encrypted(t, certs, certs.Server)
		w := newWorld(t, server.Address(), server.Address())
		show := func(pair brokers.KeyPair) {
			t.Helper()
			require.NoError(t, w.client.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", pair.Cert, "tls-key-file", pair.Key).Err())
		}
		w.change = []func(*redisstream.Config){func(c *redisstream.Config) {
			c.Address, c.TLS, c.Client = []string{address}, clientTLS(certs), client
		}}
		stop := w.relay()
		w.produce(0, 10)
		w.settled(10)

		show(certs.Expired)
		_, err := w.client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Result()
		require.NoError(t, err)
		before := connections(t, w.client)
		w.produce(10, 20)
		w.eventually(func() bool {
			up, _, err := w.source.Health.State()
			return !up && err != nil && strings.Contains(err.Error(), "replace the server's certificate")
		}, "nobody noticed")
		<-time.After(2 * time.Second) // How long it lasts.
		require.Less(t, connections(t, w.client)-before, 60, "a hot loop")

		show(certs.Server)
		w.settled(20)
		stop()
		w.requireNoLoss(20, 10)
	})
}

func TestARightThatIsMissingIsNamedAndUsedOnceItIsThere(t *testing.T) {
	both(t, func(t *testing.T, client redisstream.Client) {
		server := brokers.RedisOwn(t, "--aclfile", aclFile(t, "user default on nopass ~* &* +@all"))
		w := newWorld(t, server.Address(), server.Address())
		w.change = []func(*redisstream.Config){func(c *redisstream.Config) {
			c.Username, c.Password, c.Client = "ferry", canary, client
		}}
		allow := func(rules ...string) {
			t.Helper()
			args := []any{"ACL", "SETUSER", "ferry"}
			require.NoError(t, w.client.Do(t.Context(), append(args, anys(rules)...)...).Err())
		}
		down := func(h *handlers.Health, want string) (rules []string) {
			t.Helper()
			w.eventually(func() bool {
				up, _, err := h.State()
				if up || err == nil || !strings.Contains(err.Error(), want) {
					return false
				}
				_, after, found := strings.Cut(err.Error(), "ACL SETUSER ferry ")
				rules = strings.Fields(strings.TrimRight(after, ")"))
				return found
			}, "no word of the missing right")
			return rules
		}
		allow("on", ">"+canary)
		w.produce(0, 10)
		stop := w.relay()
		// What the error asks for is enough.
		allow(down(w.source.Health, "NOPERM")...)
		allow(down(w.destination.Health, "NOPERM")...)
		w.settled(10)
		stop()
		w.requireNoLoss(10, 0)
	})
}

func TestAnInspectionNamesTheRightsThatItNeeds(t *testing.T) {
	server := brokers.RedisOwn(t, "--aclfile", aclFile(t, "user default on nopass -@all +ping", "user ferry on >"+canary+" ~* +ping"))
	conn := open(t, server.Address(), "me", func(c *redisstream.Config) { c.Username, c.Password = "ferry", canary })
	defer conn.Close()
	w := newWorld(t, server.Address(), server.Address())
	_, err := conn.InspectSource(t.Context(), w.source, w.sourceOwn)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, "ACL SETUSER ferry ~"+w.in+" +xlen +exists +xinfo|groups")
	_, err = conn.InspectDestination(t.Context(), w.destination, w.destOwn)
	require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(err))
	require.ErrorContains(t, err, "ACL SETUSER ferry ~"+w.out)
}
