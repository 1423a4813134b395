package redisstream

import (
	"errors"
	"fmt"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/mqferry/mqferry/handlers"
)

// errReply ends a connection on which questions and answers do not go together.
var errReply = errors.New("the server sent a reply that nothing was asked for")

// receive reads replies, in the order of what was sent, until the connection breaks.
func (p *pipe) receive(w *wire) error {
	for {
		reply, err := redigo.ReceiveWithTimeout(w.conn, 0)
		var no redigo.Error
		if err != nil && !errors.As(err, &no) {
			return err
		}
		w.replied()
		m, ok := p.head()
		switch {
		case !ok:
			return errReply
		case m.turn == nil:
			err = p.answer(reply, err)
		default:
			err = p.added(w, m, no)
		}
		if err != nil {
			return err
		}
	}
}

// head takes the oldest message or question that was sent.
func (p *pipe) head() (pending, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) == 0 {
		return pending{}, false
	}
	m := p.sent[0]
	p.sent[0] = pending{}
	if p.sent = p.sent[1:]; len(p.sent) == 0 {
		p.sent = nil
	}
	return m, true
}

// added takes the reply to the XADD of m: no is empty when it was an id. A no for reasons of the server breaks the connection: all
// that was sent resolves, and the next one may find another server. So does an error without a code of its own, until it is the answer to the same
// message again, now the first one on a connection over which the stream can be asked about.
func (p *pipe) added(w *wire, m pending, no redigo.Error) error {
	var err error
	if no != "" {
		this := suspect{m.record.ID, m.stream}
		err = p.publisher.connection.permitDestination(m.stream, p.publisher.options, no)
		err = classify(m.stream, no, err, w.sound && w.answered.Load() == 1 && p.suspect == this)
		if code(no) == anyError {
			p.suspect = this
		}
	}
	if handlers.ClassOf(err) == handlers.ClassUnavailable || err == nil && len(p.publisher.questions) > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stored = append(p.stored, m)
		return err
	}
	m.turn.Done(err)
	return nil
}

// answer takes the answer to a question. When all were good, everything stored is confirmed; otherwise the questions are asked
// again, and nothing is sent twice.
func (p *pipe) answer(reply any, err error) error {
	q := p.publisher.questions[len(p.publisher.questions)-p.asks()]
	got, err := q.count(reply, p.publisher.connection.permitDestination(p.publisher.destination.Topic, p.publisher.options, err))
	if err != nil {
		return err
	}
	if got < q.need {
		p.short = fmt.Errorf("%s: %d of %d have the messages", q.command, got, q.need)
	}
	if !p.lastAnswer() {
		return nil
	}
	p.mu.Lock()
	confirmed, short := p.stored, p.short
	p.short = nil
	if short != nil {
		p.again = true
	} else {
		p.stored = nil
	}
	p.mu.Unlock()
	p.notify()
	if short != nil {
		p.publisher.destination.Health.Down(short)
		return nil
	}
	for _, m := range confirmed {
		m.turn.Done(nil)
	}
	return nil
}

func (p *pipe) asks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asking
}

func (p *pipe) lastAnswer() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking--
	return p.asking == 0
}

// question is a WAIT or WAITAOF.
type question struct {
	command string
	args    []int  // The last one is the timeout in milliseconds.
	needs   string // What the server must be for it.
	need    int64
}

func questionsOf(o DestinationConfig) []question {
	var all []question
	timeout := int(time.Duration(o.WaitTimeout).Milliseconds())
	if o.WaitAOF {
		all = append(all, question{
			command: "WAITAOF", args: []int{1, 0, timeout}, need: 1,
			needs: "wait_aof needs Redis 7.2 or later with appendonly yes",
		})
	}
	if o.WaitReplicas > 0 {
		all = append(all, question{
			command: "WAIT", args: []int{o.WaitReplicas, timeout}, need: int64(o.WaitReplicas),
			needs: "wait_replicas needs a server that is not a replica itself",
		})
	}
	return all
}

// count reads an answer: of WAIT a number, of WAITAOF two, the first of which is the server's own file.
func (q question) count(reply any, err error) (int64, error) {
	if list, ok := reply.([]any); ok && len(list) > 0 {
		reply = list[0]
	}
	n, err := redigo.Int64(reply, err)
	if err != nil {
		return 0, fmt.Errorf("%s: %w (%s)", q.command, err, q.needs)
	}
	return n, nil
}

// once gives the arguments for asking without waiting.
func (q question) once() []any {
	args := make([]any, len(q.args))
	for i, a := range q.args {
		args[i] = a
	}
	args[len(args)-1] = 1
	return args
}
