package redisstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// defaultLimit is the server's own default of proto-max-bulk-len.
const defaultLimit = 512 << 20

// errClosed is what becomes of messages that a publisher still has when it is closed.
var errClosed = errors.New("the publisher is closed")

// publisher adds messages to streams, over one pipe for each source lane.
type publisher struct {
	connection  *connection
	destination handlers.Destination
	options     DestinationConfig
	questions   []question
	limit       atomic.Int64 // Bytes of one field.
	ctx         context.Context
	cancel      context.CancelFunc

	mu     sync.Mutex
	closed bool
	pipes  map[laneKey]*pipe
	ends   sync.WaitGroup
}

// laneKey tells the lanes of the sources apart. Messages without a source share one.
type laneKey struct{ dataCenter, topic, lane string }

func newPublisher(c *connection, d handlers.Destination, o DestinationConfig) *publisher {
	p := &publisher{connection: c, destination: d, options: o, questions: questionsOf(o), pipes: map[laneKey]*pipe{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.limit.Store(defaultLimit)
	return p
}

// Publish adds messages to the stream called topic and waits until the server has confirmed them, as far as the options ask for.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	return handlers.PublishAll(messages, func(msg *message.Message, turn *handlers.Turn) error {
		return p.send(topic, msg, turn)
	})
}

// send puts a message into its pipe.
func (p *publisher) send(topic string, msg *message.Message, turn *handlers.Turn) error {
	r := record.Outgoing(msg)
	if int64(r.Size()) > p.limit.Load() {
		if err := sized(p.limit.Load(), topic, p.options.encode(r)); err != nil {
			return err
		}
	}
	pipe, err := p.pipe(r.Source)
	if err != nil {
		return err
	}
	late := false
	if err := turn.Send(func() { late = !pipe.append(pending{turn: turn, record: r, stream: topic}) }); err != nil {
		return err
	}
	if late {
		turn.Done(handlers.Unavailable(errClosed))
	}
	return nil
}

// pipe gives the pipe of a lane, so that what has an order keeps it.
func (p *publisher) pipe(s record.Source) (*pipe, error) {
	key := laneKey{s.DataCenter, s.Topic, s.Lane}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, handlers.Unavailable(errClosed)
	}
	if found := p.pipes[key]; found != nil {
		return found, nil
	}
	made := newPipe(p)
	p.pipes[key] = made
	p.ends.Go(made.run)
	return made, nil
}

// Close fails what is not confirmed yet and closes the sockets.
func (p *publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.ends.Wait()
	return nil
}
