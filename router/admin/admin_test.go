package admin_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const twoRoutes = `
datacenters:
  shanghai:  {test: {}}
  frankfurt: {test: {}}
  virginia:  {test: {}}
routes:
  - {name: orders, from: shanghai/orders, to: frankfurt/orders}
  - {name: prices, from: shanghai/prices, to: virginia/prices}
`

// deadline bounds every wait.
const deadline = 20 * time.Second

// office is a router on in-memory brokers, and its pages.
type office struct {
	store  *memory.Store
	router *router.Router
	pages  http.Handler
}

func newOffice(t *testing.T) *office {
	t.Helper()
	store := memory.New()
	option := router.WithBroker("test", store.Broker())
	cfg, err := router.Parse("test.yml", []byte(twoRoutes), option)
	require.NoError(t, err)
	r, err := router.New(cfg, option)
	require.NoError(t, err)
	return &office{store: store, router: r, pages: admin.New(r)}
}

// run runs the router until the test ends.
func (o *office) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- o.router.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-stopped:
			require.NoError(t, err)
		case <-time.After(deadline):
			require.Fail(t, "the router does not stop")
		}
	})
}

func (o *office) get(path string) (code int, body string) { return o.ask(http.MethodGet, path) }

func (o *office) ask(method, path string) (code int, body string) {
	w := httptest.NewRecorder()
	o.pages.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
	return w.Code, w.Body.String()
}

// await waits until path answers with code, and gives the body.
func (o *office) await(t *testing.T, path string, code int) string {
	t.Helper()
	var body string
	require.Eventually(t, func() bool {
		var got int
		got, body = o.get(path)
		return got == code
	}, deadline, 5*time.Millisecond)
	return body
}

func TestTheProcessIsHealthyWhateverItsRoutesDo(t *testing.T) {
	o := newOffice(t)
	code, body := o.get("/healthz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "alive\n", body)
}

func TestOnlyTheRouteWhoseBrokerIsDownIsInTrouble(t *testing.T) {
	o := newOffice(t)
	o.store.Site("frankfurt").Down()
	o.run(t)

	require.Eventually(t, func() bool {
		code, body := o.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.HasPrefix(body, "orders: ") && strings.Count(body, "\n") == 1 &&
			strings.Contains(body, "frankfurt/orders")
	}, deadline, 5*time.Millisecond)

	o.store.Site("frankfurt").Up()
	require.Equal(t, "ready, routes: 2\n", o.await(t, "/readyz", http.StatusOK))
}

func TestARouterThatDoesNotRunIsNotReady(t *testing.T) {
	code, body := newOffice(t).get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "orders: waiting")
	require.Contains(t, body, "prices: waiting")
}

func TestMetricsCountWhatEachRouteDid(t *testing.T) {
	o := newOffice(t)
	o.run(t)
	for range 7 {
		o.store.Site("shanghai").Produce("orders", 0, &record.Record{Value: []byte("an order")})
	}
	require.Eventually(t, func() bool {
		_, body := o.get("/metrics")
		return strings.Contains(body, `mqferry_messages_committed_total{route="orders"} 7`)
	}, deadline, 5*time.Millisecond)

	body := o.await(t, "/metrics", http.StatusOK)
	for _, line := range []string{
		`mqferry_messages_fetched_total{route="orders"} 7`,
		`mqferry_messages_confirmed_total{route="orders"} 7`,
		`mqferry_messages_dropped_total{route="orders"} 0`,
		`mqferry_messages_nacked_total{route="orders"} 0`,
		`mqferry_attempts_failed_total{route="orders"} 0`,
		`mqferry_attempts_refused_total{route="orders"} 0`,
		`mqferry_reconnects_total{route="orders"} 0`,
		`mqferry_restarts_total{route="orders"} 0`,
		`mqferry_recreated_total{route="orders"} 0`,
		`mqferry_commit_failures_total{route="orders"} 0`,
		`mqferry_in_flight{route="orders"} 0`,
		`mqferry_route_up{end="source",route="orders"} 1`,
		`mqferry_route_up{end="destination",route="orders"} 1`,
		`mqferry_route_ready{route="orders"} 1`,
		`mqferry_messages_fetched_total{route="prices"} 0`,
		"go_goroutines ",
	} {
		require.Contains(t, body, "\n"+line)
	}
}

func TestMetricsShowARouteInTrouble(t *testing.T) {
	o := newOffice(t)
	o.store.Site("frankfurt").Down()
	o.run(t)
	require.Eventually(t, func() bool {
		_, body := o.get("/metrics")
		return strings.Contains(body, `mqferry_route_up{end="destination",route="orders"} 0`) &&
			strings.Contains(body, `mqferry_route_ready{route="orders"} 0`) && strings.Contains(body, `mqferry_route_ready{route="prices"} 1`)
	}, deadline, 5*time.Millisecond)
}

func TestMetricsAreNamedAsPrometheusAdvises(t *testing.T) {
	_, body := newOffice(t).get("/metrics")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "mqferry_", p.Text)
	}
}

func TestPagesAreServedBelowAnyPrefix(t *testing.T) {
	o := newOffice(t)
	for _, path := range []string{"/", "/ferry/", "/a/b/healthz", "/ferry/metrics"} {
		code, _ := o.get(path)
		require.Equal(t, http.StatusOK, code, path)
	}
}

func TestTheIndexTellsAboutEveryRoute(t *testing.T) {
	_, body := newOffice(t).get("/")
	require.Contains(t, body, "orders: shanghai/orders -> frankfurt/orders\n")
	require.Contains(t, body, "prices: shanghai/prices -> virginia/prices\n")
}

func TestWhatIsNotThereIsNotFoundAndNothingIsChanged(t *testing.T) {
	o := newOffice(t)
	code, _ := o.get("/secrets")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = o.ask(http.MethodPost, "/readyz")
	require.Equal(t, http.StatusMethodNotAllowed, code)
}

func TestTheServerServesUntilItIsStopped(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := admin.Serve(listener, newOffice(t).pages, nil)
	client := http.Client{Timeout: deadline, Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + listener.Addr().String() + "/healthz"

	answer, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	server.Stop()
	server.Stop()
	_, err = client.Get(url) //nolint:bodyclose // There is none.
	require.Error(t, err)
}
