package rabbitmq

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const soon = 10 * time.Second

func pipe(t *testing.T, silence time.Duration) (*outlet, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	o := newOutlet(near, silence)
	t.Cleanup(func() {
		o.fail(net.ErrClosed)
		_ = far.Close()
	})
	return o, far
}

func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(soon):
		require.FailNow(t, what+" does not end")
	}
}

func TestWritesArriveInOrderAndBeforeTheClose(t *testing.T) {
	o, far := pipe(t, soon)
	var want []byte
	for i := range 1000 {
		b := bytes.Repeat([]byte{byte(i)}, i)
		want = append(want, b...)
		_, err := o.Write(b)
		require.NoError(t, err)
	}
	require.False(t, o.moved())
	go func() { _ = o.Close() }()
	within(t, "reading", func() {
		got, err := io.ReadAll(far)
		require.True(t, o.moved())
		require.False(t, o.moved())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	})
	_, err := o.Write([]byte("late"))
	require.Error(t, err)
}

func TestAWriteWaitsOnlyWhenMuchHasGathered(t *testing.T) {
	o, far := pipe(t, soon)
	within(t, "the first write", func() {
		_, err := o.Write(make([]byte, 2*gatherMost)) // Nobody reads.
		require.NoError(t, err)
		_, err = o.Write(make([]byte, gatherMost))
		require.NoError(t, err)
	})
	wrote := make(chan error, 1)
	go func() {
		_, err := o.Write([]byte("more"))
		wrote <- err
	}()
	select {
	case <-wrote:
		require.FailNow(t, "memory is not bounded")
	case <-time.After(100 * time.Millisecond):
	}
	within(t, "reading", func() {
		_, err := io.CopyN(io.Discard, far, 3*gatherMost+4)
		require.NoError(t, err)
		require.NoError(t, <-wrote)
	})
}

func TestAFailureOrACloseLetsNothingWait(t *testing.T) {
	for name, end := range map[string]func(*outlet){
		"failure": func(o *outlet) { o.fail(errors.New("over")) },
		"close":   func(o *outlet) { _ = o.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := pipe(t, soon)
			_, err := o.Write(make([]byte, gatherMost))
			require.NoError(t, err)
			ended := make(chan error, 2)
			go func() {
				for {
					if _, err := o.Write(make([]byte, gatherMost)); err != nil {
						ended <- err
						return
					}
				}
			}()
			go func() {
				_, err := o.Read(make([]byte, 1))
				ended <- err
			}()
			end(o)
			within(t, "what waited", func() {
				require.Error(t, <-ended)
				require.Error(t, <-ended)
			})
		})
	}
}

func TestSilenceEndsTheReadsAndTheWrites(t *testing.T) {
	o, far := pipe(t, 50*time.Millisecond)
	require.NoError(t, o.SetReadDeadline(time.Now().Add(-soon)), "the client's deadlines count for nothing")
	go func() { _, _ = far.Write([]byte("x")) }()
	within(t, "reading", func() {
		_, err := o.Read(make([]byte, 1))
		require.NoError(t, err)
		_, err = o.Read(make([]byte, 1))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
	})
	within(t, "the writes", func() {
		for {
			if _, err := o.Write([]byte("x")); err != nil {
				return
			}
		}
	})
	require.Error(t, o.failure())
}
