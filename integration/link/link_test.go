package link_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mqferry/mqferry/integration/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// serve accepts connections on a port of its own and runs serve for each until the test ends.
func serve(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// open returns a link to a server; the link is closed before the server waits for its connections.
func open(t *testing.T, server func(net.Conn)) *link.Link {
	t.Helper()
	l, err := link.New("127.0.0.1:0", serve(t, server))
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *link.Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func exchange(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
	answer := make([]byte, len(text))
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, text, string(answer))
}

func requireSilent(t *testing.T, conn net.Conn, d time.Duration) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(d)))
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "%d bytes arrived", n)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
}

func TestBytesPassBothWays(t *testing.T) {
	exchange(t, dial(t, open(t, echo)), "hello")
}

func TestDelayAddsTheRoundTripTime(t *testing.T) {
	l := open(t, echo)
	l.Delay(100 * time.Millisecond)
	conn := dial(t, l)
	for range 3 {
		began := time.Now()
		exchange(t, conn, "hello")
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 100*time.Millisecond)
		require.Less(t, took, 500*time.Millisecond)
	}
}

// Had each write to wait for the one before it, the twenty would take 20 times 50 ms and more.
func TestDelayIsPipelined(t *testing.T) {
	l := open(t, echo)
	l.Delay(200 * time.Millisecond)
	conn := dial(t, l)
	began := time.Now()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range 20 {
		<-ticker.C // so that they are chunks of their own
		_, err := conn.Write([]byte("x"))
		require.NoError(t, err)
	}
	_, err := io.ReadFull(conn, make([]byte, 20))
	require.NoError(t, err)
	require.Less(t, time.Since(began), time.Second)
}

// numbers writes 8-byte numbers in order, so that the other side sees any byte that is lost, repeated or out of order.
func numbers(conn io.Writer, size int) error {
	block := make([]byte, 256<<10)
	for next := uint64(0); size > 0; size -= len(block) {
		for i := 0; i < len(block); i += 8 {
			binary.BigEndian.PutUint64(block[i:], next)
			next++
		}
		if _, err := conn.Write(block); err != nil {
			return err
		}
	}
	return nil
}

func requireNumbers(t *testing.T, conn io.Reader, size int) {
	t.Helper()
	block := make([]byte, 256<<10)
	for next := uint64(0); size > 0; size -= len(block) {
		_, err := io.ReadFull(conn, block)
		require.NoError(t, err)
		for i := 0; i < len(block); i += 8 {
			if binary.BigEndian.Uint64(block[i:]) != next {
				require.Equal(t, next, binary.BigEndian.Uint64(block[i:]))
			}
			next++
		}
	}
}

func TestOrderIsKeptWhileTheDelayChanges(t *testing.T) {
	const size = 64 << 20
	l := open(t, func(conn net.Conn) { _ = numbers(conn, size) })
	conn := dial(t, l)
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for i := 0; ; i++ {
			l.Delay(time.Duration(i%5) * 10 * time.Millisecond)
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	requireNumbers(t, conn, size)
	close(done)
	changing.Wait()
}

func TestBandwidthLimitsEachDirection(t *testing.T) {
	const size, rate = 256 << 10, 512 << 10
	l := open(t, echo)
	l.Bandwidth(rate)
	conn := dial(t, l)
	began := time.Now()
	var sending sync.WaitGroup
	sending.Go(func() { _ = numbers(conn, size) })
	requireNumbers(t, conn, size)
	took := time.Since(began)
	sending.Wait()
	require.GreaterOrEqual(t, took, 450*time.Millisecond)
	// Both directions at once: one after the other would take a second.
	require.Less(t, took, 950*time.Millisecond)
	l.Bandwidth(0)
	began = time.Now()
	exchange(t, conn, string(make([]byte, 64<<10)))
	require.Less(t, time.Since(began), 100*time.Millisecond)
}

func TestCutBreaksConnectionsAndRefusesNewOnesUntilHealed(t *testing.T) {
	l := open(t, echo)
	conn := dial(t, l)
	exchange(t, conn, "before")
	l.Cut()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = net.Dial("tcp", l.Address())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, l.Heal())
	exchange(t, dial(t, l), "after")
}

func TestCutDropsWhatIsOnTheWay(t *testing.T) {
	got := make(chan []byte, 1)
	l := open(t, func(conn net.Conn) {
		text, _ := io.ReadAll(conn)
		got <- text
	})
	conn := dial(t, l)
	_, err := conn.Write([]byte("arrived"))
	require.NoError(t, err)
	l.Delay(time.Hour)
	// The first text is on its way without a delay: wait until the second can be told apart from it.
	require.Eventually(t, func() bool { _, err := conn.Write([]byte("-")); return err == nil }, patience, time.Millisecond)
	l.Cut()
	select {
	case text := <-got:
		require.NotContains(t, string(text), "-")
	case <-time.After(patience):
		require.Fail(t, "the server still waits on the cut connection")
	}
}

func TestStallHoldsBytesWithoutAResetAndHealDeliversThem(t *testing.T) {
	l := open(t, echo)
	conn := dial(t, l)
	exchange(t, conn, "before")
	l.Stall()
	l.Stall()
	_, err := conn.Write([]byte("held"))
	require.NoError(t, err)
	requireSilent(t, conn, 200*time.Millisecond)
	fresh := dial(t, l)
	_, err = fresh.Write([]byte("too"))
	require.NoError(t, err)
	requireSilent(t, fresh, 100*time.Millisecond)
	require.NoError(t, l.Heal())
	for text, c := range map[string]net.Conn{"held": conn, "too": fresh} {
		answer := make([]byte, len(text))
		_, err = io.ReadFull(c, answer)
		require.NoError(t, err)
		require.Equal(t, text, string(answer))
	}
}

func TestStallHoldsWhatIsOnTheWay(t *testing.T) {
	l := open(t, echo)
	conn, other := dial(t, l), dial(t, l)
	l.Delay(400 * time.Millisecond)
	_, err := conn.Write([]byte("held"))
	require.NoError(t, err)
	l.Delay(0)
	for range 20 { // meanwhile the bytes enter the link
		exchange(t, other, "x")
	}
	l.Stall()
	requireSilent(t, conn, 500*time.Millisecond)
	require.NoError(t, l.Heal())
	answer := make([]byte, 4)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "held", string(answer))
}

func TestAStalledLinkCanBeCutAndClosed(t *testing.T) {
	l := open(t, echo)
	conn := dial(t, l)
	exchange(t, conn, "before")
	l.Stall()
	_, err := conn.Write([]byte("held"))
	require.NoError(t, err)
	l.Cut()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, l.Heal())
	exchange(t, dial(t, l), "after")
	l.Stall()
	l.Close()
	l.Close()
	require.ErrorIs(t, l.Heal(), net.ErrClosed)
}

func TestTheEndOfAStreamPassesAfterItsBytes(t *testing.T) {
	l := open(t, func(conn net.Conn) {
		text, _ := io.ReadAll(conn)
		_, _ = conn.Write(bytes.ToUpper(text))
	})
	l.Delay(20 * time.Millisecond)
	conn := dial(t, l).(*net.TCPConn)
	_, err := conn.Write([]byte("whole"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "WHOLE", string(answer))
}

func TestAnAbsentServerBreaksTheConnection(t *testing.T) {
	l, err := link.New("127.0.0.1:0", "127.0.0.1:1")
	require.NoError(t, err)
	t.Cleanup(l.Close)
	conn, err := net.Dial("tcp", l.Address())
	if err == nil { // the reset may be faster than the connect
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Read(make([]byte, 1))
	}
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A receiver that takes nothing must hold the sender back: memory is bounded.
func TestASlowReceiverHoldsTheSenderBack(t *testing.T) {
	release := make(chan struct{})
	l := open(t, func(net.Conn) { <-release })
	defer close(release)
	conn := dial(t, l)
	require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
	// The buffers of the kernel on both sides come on top of the 64 MiB.
	err := numbers(conn, 256<<20)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func BenchmarkThroughputAt50ms(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer listener.Close()
	l, err := link.New("127.0.0.1:0", listener.Addr().String())
	require.NoError(b, err)
	defer l.Close()
	l.Delay(50 * time.Millisecond)
	client, err := net.Dial("tcp", l.Address())
	require.NoError(b, err)
	defer client.Close()
	server, err := listener.Accept()
	require.NoError(b, err)
	defer server.Close()
	const size = 256 << 20
	b.SetBytes(size)
	var sending sync.WaitGroup
	block := make([]byte, 256<<10)
	for b.Loop() {
		sending.Go(func() {
			for range size / len(block) {
				_, _ = client.Write(block)
			}
		})
		_, err := io.CopyN(io.Discard, server, size)
		require.NoError(b, err)
		sending.Wait()
	}
}
