package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/integration/ledger"
)

func TestAnEntryArrivesAsItWasSent(t *testing.T) {
	l := ledger.New()
	for range 100 {
		sent := l.Next("orders", 1024)
		l.Sent(sent)
		got, err := ledger.Parse(sent.Key, sent.Value, sent.Headers, sent.Time)
		require.NoError(t, err)
		require.Equal(t, sent, got)
		l.Received(got)
	}
	require.Equal(t, ledger.Report{Produced: 100, Arrived: 100}, l.Check())
}

func TestEntriesHaveTheSizeThatIsAskedForAndAreNullOrEmptyNowAndThen(t *testing.T) {
	l := ledger.New()
	var null, empty, whole int
	for range 64 {
		switch e := l.Next("orders", 1024); {
		case e.Value == nil:
			null++
		case len(e.Value) == 0:
			empty++
		case len(e.Value) == 1024:
			whole++
		}
	}
	require.Equal(t, []int{1, 1, 62}, []int{null, empty, whole})
}

func TestHeadersThatARelayAddsAreNotTheEntrys(t *testing.T) {
	sent := ledger.New().Next("orders", 10)
	headers := slices.Insert(slices.Clone(sent.Headers), 1, ledger.Header{Name: "path", Value: []byte("here")})
	got, err := ledger.Parse(sent.Key, sent.Value, headers, sent.Time)
	require.NoError(t, err)
	require.Equal(t, sent.Fingerprint(), got.Fingerprint())
}

func TestAMessageThatDoesNotSayWhichItIsIsNotParsed(t *testing.T) {
	lane := ledger.Header{Name: ledger.LaneHeader, Value: []byte("orders")}
	for name, headers := range map[string][]ledger.Header{
		"nothing":   nil,
		"no number": {lane},
		"bad":       {lane, {Name: ledger.SeqHeader, Value: []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ledger.Parse(nil, nil, headers, time.Time{})
			require.ErrorContains(t, err, ledger.SeqHeader)
		})
	}
}

func TestEveryChangeChangesTheFingerprint(t *testing.T) {
	sent := ledger.New().Next("orders", 10)
	changes := map[string]func(*ledger.Entry){
		"lane":                   func(e *ledger.Entry) { e.Lane = "other" },
		"number":                 func(e *ledger.Entry) { e.Seq++ },
		"key":                    func(e *ledger.Entry) { e.Key = []byte("other") },
		"null key":               func(e *ledger.Entry) { e.Key = nil },
		"value":                  func(e *ledger.Entry) { e.Value[0]++ },
		"null value":             func(e *ledger.Entry) { e.Value = nil },
		"empty value":            func(e *ledger.Entry) { e.Value = []byte{} },
		"header value":           func(e *ledger.Entry) { e.Headers[3].Value[0]++ },
		"header name":            func(e *ledger.Entry) { e.Headers[3].Name = "other" },
		"header lost":            func(e *ledger.Entry) { e.Headers = e.Headers[:4] },
		"headers in other order": func(e *ledger.Entry) { e.Headers[2], e.Headers[3] = e.Headers[3], e.Headers[2] },
		"time":                   func(e *ledger.Entry) { e.Time = e.Time.Add(time.Millisecond) },
	}
	seen := map[uint64]string{sent.Fingerprint(): "nothing"}
	for name, change := range changes {
		e, err := ledger.Parse(slices.Clone(sent.Key), slices.Clone(sent.Value), cloneHeaders(sent.Headers), sent.Time)
		require.NoError(t, err)
		change(&e)
		require.NotContains(t, seen, e.Fingerprint(), "changing %s is like changing %s", name, seen[e.Fingerprint()])
		seen[e.Fingerprint()] = name
	}
}

func cloneHeaders(headers []ledger.Header) []ledger.Header {
	headers = slices.Clone(headers)
	for i := range headers {
		headers[i].Value = slices.Clone(headers[i].Value)
	}
	return headers
}

func TestTheZoneAndPartsOfAMillisecondDoNotCount(t *testing.T) {
	sent := ledger.New().Next("orders", 10)
	got := sent
	got.Time = sent.Time.UTC().Add(time.Microsecond)
	require.Equal(t, sent.Fingerprint(), got.Fingerprint())
}

func BenchmarkNextAndFingerprint(b *testing.B) {
	l := ledger.New()
	b.ReportAllocs()
	for b.Loop() {
		l.Sent(l.Next("orders", 1024))
	}
}
