package command_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/router"
	"github.com/mqferry/mqferry/router/command"
)

// get gives the status that url answers with.
func get(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Timeout: deadline, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// lines parses a log.
func lines(t *testing.T, log string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for s := bufio.NewScanner(strings.NewReader(log)); s.Scan(); {
		var line map[string]any
		require.NoError(t, json.Unmarshal(s.Bytes(), &line), s.Text())
		all = append(all, line)
	}
	return all
}

func TestRunCarriesMessagesAndStopsCleanly(t *testing.T) {
	store := memory.New()
	for range 5 {
		store.Site("shanghai").Produce("orders", 0, &record.Record{Value: []byte("an order")})
	}
	address := freeAddress(t)
	file := write(t, oneRoute+"admin: {listen: \""+address+"\"}\n")
	ctx, stop := context.WithTimeout(t.Context(), deadline)
	defer stop()
	var out, log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- command.RunWith(ctx, &out, &log, []string{"run", "-c", file}, router.WithBroker("test", store.Broker()))
	}()
	committed := func() bool { return store.Site("shanghai").Committed("orders", "mqferry-orders", 0) == 5 }
	require.NoError(t, store.Site("shanghai").Await(ctx, committed))
	require.Equal(t, http.StatusOK, get(t, "http://"+address+"/readyz"))

	stop()
	require.Equal(t, 0, <-ended, log.String())
	require.Empty(t, out.String())
	require.Equal(t, 5, store.Site("frankfurt").Count("orders"))
	all := lines(t, log.String())
	require.Equal(t, "stopped cleanly", all[len(all)-1]["msg"])
}

func TestWhatIsNotSettledAtTheStopIsAFailure(t *testing.T) {
	store := memory.New()
	gate, asked := make(chan struct{}), make(chan struct{}, 1)
	defer close(gate)
	store.Site("frankfurt").OnPublish(func(string, *record.Record, int) memory.Verdict {
		asked <- struct{}{}
		return memory.Delay(gate)
	})
	store.Site("shanghai").Produce("orders", 0, &record.Record{Value: []byte("an order")})
	ctx, stop := context.WithTimeout(t.Context(), deadline)
	defer stop()
	var out, log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		args := []string{"run", "-c", write(t, oneRoute+"shutdown_timeout: 100ms\n")}
		ended <- command.RunWith(ctx, &out, &log, args, router.WithBroker("test", store.Broker()))
	}()
	<-asked
	stop()
	require.Equal(t, 1, <-ended)
	require.Contains(t, log.String(), "stopped, but not cleanly")
	require.Contains(t, log.String(), "shutdown_timeout (100ms)")
}

func TestAPortInUseIsSaidBeforeAnyRouteStarts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	store := memory.New()
	store.Site("shanghai").Produce("orders", 0, &record.Record{Value: []byte("an order")})

	got := ask(t, []string{"run", "-c", write(t, oneRoute+"admin: {listen: \""+taken.Addr().String()+"\"}\n")}, router.WithBroker("test", store.Broker()))
	require.Equal(t, 1, got.code)
	require.Contains(t, got.errors, "admin.listen: listen tcp "+taken.Addr().String())
	require.Contains(t, got.errors, "address already in use")
	require.Zero(t, store.Site("frankfurt").Count("orders"))

	got = ask(t, []string{"demo", "--for", "1s", "--admin", taken.Addr().String()})
	require.Equal(t, 1, got.code)
	require.Contains(t, got.errors, "address already in use")
}

func TestTheLogIsTextWhenAskedTo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, log bytes.Buffer
	args := []string{"run", "-c", write(t, oneRoute), "--log-format", "text", "--log-level", "info"}
	require.Equal(t, 0, command.RunWith(ctx, &out, &log, args, router.WithBroker("test", memory.New().Broker())))
	require.Contains(t, log.String(), `level=INFO msg="stopped cleanly"`)
}

func TestConnectTellsWhichRouteWouldNotWork(t *testing.T) {
	store := memory.New()
	store.Site("shanghai").Produce("orders", 0, &record.Record{Value: []byte("an order")})
	args := []string{"validate", "--connect", "-c", write(t, oneRoute)}
	got := ask(t, args, router.WithBroker("test", store.Broker()))
	require.Equal(t, 0, got.code)
	require.Contains(t, got.out, "ok: 1 route, 2 data centers\n  orders\n    from   shanghai/orders: ")
	require.Contains(t, got.out, "    to     frankfurt/orders: ")
	require.Zero(t, store.Site("shanghai").Committed("orders", "mqferry-orders", 0))
	require.Zero(t, store.Site("frankfurt").Count("orders"))

	store.Site("frankfurt").Down()
	got = ask(t, args, router.WithBroker("test", store.Broker()))
	require.Equal(t, 1, got.code)
	require.Contains(t, got.out, "not ok: 1 of 1 route, 2 data centers would not work\n")
	require.Contains(t, got.out, "    to     frankfurt/orders: error: ")
	require.NotContains(t, got.out, "    from   shanghai/orders: error: ")
}

// freeAddress gives an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}
