package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	stock "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
)

// The stock client, watermill-amqp: as it comes, with settings that lose nothing.

const (
	// stockResend is the pause before a nacked message goes back to the queue, which gives it out again at once.
	stockResend = time.Second
	// stockDrain is how long the message in flight may take to be settled when the intake stops.
	stockDrain = 5 * time.Second
	// stockSettle is how long a consumer must have lasted to count as one: the stock package does not tell when RabbitMQ has said yes.
	stockSettle = 200 * time.Millisecond
	// stockURI stands for all addresses: our own network knows where to, and who logs it learns nothing.
	stockURI = "amqp://rabbitmq"
)

func (c Config) checkStockSource(o SourceConfig) error {
	if c.Client == Watermill && o.Exchange != "" {
		return config.Invalid("exchange", "cannot be had with client: watermill, which reads queues only; write a topic, or client: pipelined")
	}
	return nil
}

func (c Config) checkStockDestination(o DestinationConfig) error {
	if c.Client != Watermill {
		return nil
	}
	_, _, d := DefaultConfig()
	var errs []error
	if o.Exchange != "" {
		errs = append(errs, config.Invalid("exchange", "cannot be had with client: watermill, which writes queues only; write a topic, or client: pipelined"))
	}
	if o.ConfirmTimeout != d.ConfirmTimeout {
		errs = append(errs, config.Invalid("confirm_timeout", "cannot be had with client: watermill, which waits for a confirm as long as the connection lasts; leave it out, or write client: pipelined"))
	}
	return errors.Join(errs...)
}

// stockConnection makes the subscribers and publishers of watermill-amqp. Everything else is as for our own.
type stockConnection struct {
	*Connection
	resend time.Duration // Before a nacked message goes back to the queue.
}

// Subscriber makes the subscriber of one queue. It connects when it is subscribed.
func (c *stockConnection) Subscriber(s handlers.Source, o SourceConfig) (message.Subscriber, error) {
	return newStockSubscriber(c, s, o), nil
}

// Publisher makes the publisher of one route. It connects at once, and again whenever the connection is gone, until it is closed.
func (c *stockConnection) Publisher(d handlers.Destination, o DestinationConfig) (message.Publisher, error) {
	return newStockPublisher(c.Connection, d, o), nil
}

// stockLine is one AMQP connection of the stock package, through our own network. That package does not get another one in its place.
type stockLine struct {
	*link
	wrapper   *stock.ConnectionWrapper
	abandoned chan struct{} // Closed when the stock package has noted that the connection is gone, which it does without a lock.
}

// stockLine connects to the first address that answers. Over, if there is one, gives what is put between the network and the AMQP client.
func (c *Connection) stockLine(ctx context.Context, what string, log stockLogger, over wrap) (l *stockLine, err error) {
	err = c.each(func(u config.URL) error {
		l, err = c.stockLineTo(ctx, u, what, log, over)
		return err
	})
	return l, err
}

func (c *Connection) stockLineTo(ctx context.Context, u config.URL, what string, log stockLogger, over wrap) (*stockLine, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.config.DialTimeout))
	defer cancel()
	l := &link{gone: make(chan *amqp.Error, 1), blocks: make(chan amqp.Blocking, 8)}
	stop := func() bool { return true }
	var dialled atomic.Bool
	abandoned := make(chan struct{})
	settings := c.handshake(u, what)
	settings.Dial = func(string, string) (net.Conn, error) {
		if dialled.Swap(true) {
			// It would go on without the channels that it had, and nobody would be told. It cannot be closed either while it connects: its goroutine
			// would wait for a connection for ever.
			close(abandoned)
			runtime.Goexit()
		}
		conn, err := c.network(ctx, u)
		if err != nil {
			return nil, err
		}
		l.out = newOutlet(conn, 2*time.Duration(c.config.Heartbeat))
		stop = context.AfterFunc(ctx, func() { l.out.fail(ctx.Err()) }) // The handshake looks at no context.
		if over != nil {
			return over(l.out), nil
		}
		return l.out, nil
	}
	wrapper, err := stock.NewConnection(stock.ConnectionConfig{
		AmqpURI: stockURI, AmqpConfig: &settings,
	}, log)
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		if l.out != nil {
			l.out.fail(err)
		}
		if wrapper != nil {
			_ = wrapper.Close()
		}
		return nil, err
	}
	l.conn = wrapper.Connection()
	l.conn.NotifyClose(l.gone)
	return &stockLine{link: l, wrapper: wrapper, abandoned: abandoned}, nil
}

// lost tells why the connection is gone; nil while it is not.
func (l *stockLine) lost() error {
	if !l.conn.IsClosed() {
		return nil
	}
	var said *amqp.Error
	select {
	case said = <-l.gone:
	case <-time.After(partingTime): // It is told in a moment.
	}
	return fmt.Errorf("connection to rabbitmq: %w", l.why(said))
}

// close ends the connection, as it should be if RabbitMQ answers within patience.
func (l *stockLine) close(patience time.Duration) {
	timer := time.AfterFunc(patience, func() { l.end(errClosed) })
	defer timer.Stop()
	_ = l.wrapper.Close()
	l.out.fail(errClosed)
}
