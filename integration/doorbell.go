package integration

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Doorbell stands at the address of a broker that is down, turns away everybody who knocks, and counts them.
type Doorbell struct {
	listener net.Listener
	count    atomic.Int64
	answer   sync.WaitGroup
}

// NewDoorbell takes the address over until Remove is called or the test ends.
func NewDoorbell(t testing.TB, address string) *Doorbell {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	d := &Doorbell{listener: listener}
	d.answer.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.count.Add(1)
			_ = conn.Close()
		}
	})
	t.Cleanup(d.Remove)
	return d
}

// Knocks is how many connections were turned away so far.
func (d *Doorbell) Knocks() int { return int(d.count.Load()) }

// Remove frees the address. Removing twice does nothing.
func (d *Doorbell) Remove() {
	_ = d.listener.Close()
	d.answer.Wait()
}
