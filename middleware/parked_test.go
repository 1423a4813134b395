package middleware_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
)

func header(name, value string) record.Header {
	return record.Header{Key: name, Value: []byte(value)}
}

func TestWhatIsParkedIsTheOriginalAgain(t *testing.T) {
	for name, r := range map[string]*record.Record{
		"nothing at all":     {},
		"null":               {ID: "id", Key: []byte{0, 0xff}, Time: time.UnixMilli(1)},
		"empty":              {Key: []byte{}, Value: []byte{}},
		"parked before":      {Value: []byte("x"), Headers: []record.Header{header(middleware.PoisonRoute, "other"), header(middleware.PoisonReason, "no")}},
		"properties":         {Value: []byte("x"), Headers: []record.Header{header(record.ExpirationEntry, "10"), header("a", "b"), header(record.ExchangeEntry, "")}},
		"escaped properties": {Headers: []record.Header{header(record.EscapedPrefix+record.ExpirationEntry, "10"), header(record.RoutingKeyEntry, "k")}},
		"headers of a type":  {Headers: []record.Header{{Key: record.PriorityEntry, Value: []byte("5"), Type: record.Int32}, {Key: "void", Type: record.Void}}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Source = record.Source{DataCenter: "near", Topic: "orders", Lane: "3", Position: "77"}
			parked := middleware.Parked(r, "one", handlers.Refused(errors.New("no")))
			require.NotNil(t, parked.Value)
			require.NotEmpty(t, parked.Key)
			got, why, ok := middleware.Unparked(parked)
			require.True(t, ok)
			require.Equal(t, r, got)
			require.Equal(t, "one", why[middleware.PoisonRoute])
		})
	}
}

func TestWhatIsParkedNeitherExpiresNorOvertakes(t *testing.T) {
	r := &record.Record{Value: []byte("x")}
	acted := []string{record.ExpirationEntry, record.PriorityEntry, record.ExchangeEntry, record.RoutingKeyEntry}
	for _, name := range acted {
		r.Headers = append(r.Headers, header(name, "1"))
	}
	for _, h := range middleware.Parked(r, "one", errors.New("no")).Headers {
		require.NotContains(t, acted, h.Key)
	}
}
