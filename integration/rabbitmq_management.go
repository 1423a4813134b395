package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CloseConnections closes the connections of all ferries over the management API, as an operator would, and returns how many there were.
func (q *RabbitMQ) CloseConnections(t testing.TB) int {
	t.Helper()
	var connections []struct {
		Name   string
		Client struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	require.NoError(t, json.Unmarshal(q.manage(t, http.MethodGet, "/api/connections"), &connections))
	closed := 0
	for _, c := range connections {
		if strings.HasPrefix(c.Client.Name, "mqferry") {
			q.manage(t, http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name))
			closed++
		}
	}
	return closed
}

// manage makes a request to the management API. What is to be deleted may be gone already.
func (q *RabbitMQ) manage(t testing.TB, method, path string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(q.broker.ManagementURL(), "/")+path, http.NoBody)
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	gone := method == http.MethodDelete && response.StatusCode == http.StatusNotFound
	require.True(t, gone || response.StatusCode < http.StatusBadRequest, fmt.Sprintf("%s %s: %s: %s", method, path, response.Status, body))
	return body
}
