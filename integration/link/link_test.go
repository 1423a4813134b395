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

func TestConnectionsAreCounted(t *testing.T) {
	l := open(t, echo)
	require.Zero(t, l.Accepted())
	exchange(t, dial(t, l), "one")
	exchange(t, dial(t, l), "two")
	require.Equal(t, 2, l.Accepted())
}

func TestDelayAddsTheRoundTripTime(t *testing.T) {
	l := open(t, echo)
	l.Delay(100 * time.Millisecond)
	conn := dial(t, l)
	fastest := time.Hour
	for range 5 {
		began := time.Now()
		exchange(t, conn, "hello")
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 100*time.Millisecond)
		fastest = min(fastest, took)
	}
	require.Less(t, fastest, 200*time.Millisecond)
}

// Had each write to wait for the one before it, the forty would take 40 times 100 ms and more.
func TestDelayIsPipelined(t *testing.T) {
	l := open(t, echo)
	l.Delay(200 * time.Millisecond)
	conn := dial(t, l)
	began := time.Now()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range 40 {
		<-ticker.C // so that they are chunks of their own
		_, err := conn.Write([]byte("x"))
		require.NoError(t, err)
	}
	_, err := io.ReadFull(conn, make([]byte, 40))
	require.NoError(t, err)
	require.Less(t, time.Since(began), 4*time.Second)
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
	const size, rate = 1 << 20, 512 << 10
	l := open(t, echo)
	conn := dial(t, l)
	there := func() time.Duration {
		began := time.Now()
		var sending sync.WaitGroup
		sending.Go(func() { _ = numbers(conn, size) })
		requireNumbers(t, conn, size)
		sending.Wait()
		return time.Since(began)
	}
	l.Bandwidth(rate)
	took := there()
	require.GreaterOrEqual(t, took, 1900*time.Millisecond)
	require.Less(t, took, 3800*time.Millisecond, "both directions at once: one after the other takes 4 s")
	l.Bandwidth(0)
	require.Less(t, there(), 1900*time.Millisecond)
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
		_, _ = io.CopyN(conn, conn, int64(len("arrived")))
		text, _ := io.ReadAll(conn)
		got <- text
	})
	conn := dial(t, l)
	exchange(t, conn, "arrived")
	l.Delay(time.Hour)
	_, err := conn.Write([]byte("on the way"))
	require.NoError(t, err)
	l.Cut()
	select {
	case text := <-got:
		require.Empty(t, text)
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
	answered := make(chan struct{})
	l := open(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 1))
		_, _ = conn.Write([]byte("held"))
		_, _ = io.ReadFull(conn, make([]byte, 1))
		close(answered)
		_, _ = io.Copy(io.Discard, conn)
	})
	conn := dial(t, l)
	// The second byte takes 50 ms longer one way, so that the answer is in the link when the server has that byte.
	for _, delay := range []time.Duration{500 * time.Millisecond, 600 * time.Millisecond} {
		l.Delay(delay)
		_, err := conn.Write([]byte("x"))
		require.NoError(t, err)
	}
	select {
	case <-answered:
	case <-time.After(patience):
		require.Fail(t, "the server got nothing")
	}
	l.Stall()
	requireSilent(t, conn, 500*time.Millisecond)
	require.NoError(t, l.Heal())
	answer := make([]byte, 4)
	_, err := io.ReadFull(conn, answer)
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

// What a dead link takes is what the kernel's buffers hold, not what the link may have on the way.
func TestAStallHoldsTheSenderBack(t *testing.T) {
	l := open(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	l.Stall()
	conn := dial(t, l)
	require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
	require.ErrorIs(t, numbers(conn, 48<<20), os.ErrDeadlineExceeded)
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
