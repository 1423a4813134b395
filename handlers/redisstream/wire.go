package redisstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// writeBuffer gathers small messages into one write; a larger message is written in pieces of this size.
const writeBuffer = 64 << 10

// wire is one connection of a pipe: one goroutine sends, one receives.
type wire struct {
	conn    redigo.Conn
	raw     net.Conn
	out     *bufio.Writer
	options DestinationConfig
	asks    []question
	opened  time.Time
	sound   bool // The server itself told of the stream just before.
	number  [20]byte

	flushed  int64        // How many messages and questions were written; the writing goroutine's.
	answered atomic.Int64 // How many of them have a reply.
	waiting  atomic.Int64 // Since when the oldest of the others waits for the server, counted from opened.

	once  sync.Once
	cause error // Read it after both goroutines have ended.
}

// open dials, and finds out whether the server can do what the options ask for before anything is stored there.
func (p *publisher) open(ctx context.Context) (*wire, error) {
	conn, raw, err := p.connection.pipelined(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range p.questions {
		reply, err := redigo.DoContext(conn, ctx, q.command, q.once()...)
		if _, err := q.count(reply, err); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	// Not every user may read the configuration; then the default has to do.
	if pair, err := redigo.Strings(redigo.DoContext(conn, ctx, "CONFIG", "GET", "proto-max-bulk-len")); err == nil && len(pair) == 2 {
		if limit, err := strconv.ParseInt(pair[1], 10, 64); err == nil && limit > 0 {
			p.limit.Store(limit)
		}
	}
	if err := conn.Err(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to redis at %s: %w", p.connection.at(), err)
	}
	w := &wire{conn: conn, raw: raw, options: p.options, asks: p.questions, opened: time.Now()}
	w.out = bufio.NewWriterSize(pieces{w}, writeBuffer)
	return w, nil
}

// knows reports whether the server tells of a stream: what has a proxy in front of it would not while it is down.
func (w *wire) knows(ctx context.Context, stream string) bool {
	_, err := redigo.DoContext(w.conn, ctx, "XLEN", stream)
	var no redigo.Error
	return err == nil || errors.As(err, &no) && code(no) != anyError
}

// end closes the connection, which ends the other goroutine too; the first cause is kept.
func (w *wire) end(cause error) {
	w.once.Do(func() { w.cause = cause })
	_ = w.conn.Close()
}

// replied counts a reply: the next message waits from now on.
func (w *wire) replied() {
	w.answered.Add(1)
	w.waiting.Store(int64(time.Since(w.opened)))
}

// quiet is how long the server has been silent with everything before it to work on, or with nothing to do.
func (w *wire) quiet() time.Duration { return time.Since(w.opened) - time.Duration(w.waiting.Load()) }

// pieces writes to a wire bit by bit, so that the deadline is one for each bit: a large message on a slow link takes its time.
type pieces struct{ *wire }

func (p pieces) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		piece := b[:min(len(b), writeBuffer)]
		if err := p.raw.SetWriteDeadline(time.Now().Add(time.Duration(p.options.ConfirmTimeout))); err != nil {
			return written, err
		}
		n, err := p.raw.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

// send writes messages, and the questions about them if ask is set.
func (w *wire) send(batch []pending, ask bool) error {
	for i := range batch {
		w.add(&batch[i])
	}
	if ask {
		for _, q := range w.asks {
			w.array(1 + len(q.args))
			w.text(q.command)
			for _, a := range q.args {
				w.text(strconv.Itoa(a))
			}
		}
	}
	// A bufio.Writer keeps its first error for the end.
	if err := w.out.Flush(); err != nil {
		return err
	}
	// Were it done for each write, a server that never answers would be believed as long as messages come.
	if w.answered.Load() >= w.flushed {
		w.waiting.Store(int64(time.Since(w.opened)))
	}
	w.flushed += int64(len(batch))
	if ask {
		w.flushed += int64(len(w.asks))
	}
	return nil
}

// add writes the XADD of one message.
func (w *wire) add(m *pending) {
	e := w.options.encode(m.record)
	n := 3 + len(e.fields)
	if e.payloadName != "" {
		n += 2
	}
	if w.options.MaxLength > 0 {
		n += 3
	}
	w.array(n)
	w.text("XADD")
	w.text(m.stream)
	if w.options.MaxLength > 0 {
		w.text("MAXLEN")
		w.text("~")
		w.text(strconv.FormatInt(w.options.MaxLength, 10))
	}
	w.text("*")
	for _, f := range e.fields {
		w.text(f)
	}
	if e.payloadName != "" {
		w.text(e.payloadName)
		w.length('$', len(e.payload))
		_, _ = w.out.Write(e.payload)
		_, _ = w.out.WriteString("\r\n")
	}
}

func (w *wire) array(n int) { w.length('*', n) }

func (w *wire) text(s string) {
	w.length('$', len(s))
	_, _ = w.out.WriteString(s)
	_, _ = w.out.WriteString("\r\n")
}

func (w *wire) length(kind byte, n int) {
	_ = w.out.WriteByte(kind)
	_, _ = w.out.Write(strconv.AppendInt(w.number[:0], int64(n), 10))
	_, _ = w.out.WriteString("\r\n")
}
