package redisstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	stock "github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/lane"
)

const (
	// stockResend is the pause before the stock subscriber emits a nacked message again; by default it takes none.
	stockResend = time.Second
	// stockClaim is how often, at least, it looks for entries that others have abandoned.
	stockClaim = 5 * time.Second
	// stockDrain is how long the message in flight may take to be settled when the intake stops, and its ack after that.
	stockDrain = 5 * time.Second
	// stockSockets is for its reads, its claims and its acks, or for the lanes that publish at the same time.
	stockSockets = 16
)

// CheckSource reports options that the stock client cannot honour.
func (c Config) CheckSource(_ config.Source, o SourceConfig) error {
	_, s, _ := DefaultConfig()
	if c.Client == Watermill && o.Lease != s.Lease {
		return config.Invalid("lease", "cannot be had with client: watermill, which shares a stream among all instances")
	}
	return nil
}

// CheckDestination reports options that the stock client cannot honour.
func (c Config) CheckDestination(_ config.Destination, o DestinationConfig) error {
	if c.Client != Watermill {
		return nil
	}
	_, _, d := DefaultConfig()
	var errs []error
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"format", o.Format != d.Format},
		{"wait_replicas", o.WaitReplicas != d.WaitReplicas},
		{"wait_aof", o.WaitAOF != d.WaitAOF},
		{"wait_timeout", o.WaitTimeout != d.WaitTimeout},
	} {
		if option.set {
			errs = append(errs, config.Invalid(option.name, "cannot be had with client: watermill; leave it out, or the client"))
		}
	}
	return errors.Join(errs...)
}

// stockSubscriber is the subscriber of watermill-redisstream, made again whenever it ends by itself. It emits one message after the other, with
// its record, and without a ticket.
type stockSubscriber struct {
	connection *connection
	source     handlers.Source
	options    SourceConfig
	log        stockLogger
	closed     chan struct{} // Closed when nothing runs any more.

	mu         sync.Mutex
	subscribed bool
	stop       context.CancelFunc
}

var errStockEnded = errors.New("the stock subscriber ended by itself")

func newStockSubscriber(c *connection, s handlers.Source, o SourceConfig) *stockSubscriber {
	return &stockSubscriber{connection: c, source: s, options: o, log: newStockLogger(s.Logger), closed: make(chan struct{})}
}

// Subscribe returns the channel of messages at once, and connects for as long as it takes. The end of ctx stops the intake as Close does.
func (s *stockSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		return nil, handlers.ErrSubscribed
	}
	s.subscribed = true
	intake, stop := context.WithCancel(ctx)
	s.stop = stop
	out := make(chan *message.Message)
	go s.run(intake, out)
	return out, nil
}

func (s *stockSubscriber) run(intake context.Context, out chan<- *message.Message) {
	defer close(s.closed)
	defer close(out)
	again := false
	handlers.Again(intake, lane.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second}, func() bool {
		i := newInbox(s)
		err := s.once(intake, out, i, again)
		if intake.Err() != nil {
			return true
		}
		again = again || i.subscribed
		if !i.noGroup.Load() {
			s.source.Meter.Reconnects.Add(1)
		}
		s.source.Health.Down(s.connection.permitSource(s.source, err))
		return false
	})
}

// once runs the stock subscriber until it ends, or the intake does and the message in flight is acked. Again says that the group was there before.
func (s *stockSubscriber) once(intake context.Context, out chan<- *message.Message, i *inbox, again bool) error {
	life, cancel := context.WithCancel(context.WithoutCancel(intake))
	defer cancel()
	client := redis.NewClient(s.connection.options(stockSockets))
	defer client.Close()
	client.AddHook(i)
	sub, err := stock.NewSubscriber(s.settings(client, i, again), s.log)
	if err != nil {
		return err
	}
	// Its Close closes the client, which ends the reads that look at no context: they must know by then that they are to end.
	defer func() {
		i.awaitAck(life)
		cancel()
		_ = sub.Close()
	}()
	if err := i.takeBack(life, client); err != nil {
		return err
	}
	messages, err := sub.Subscribe(life, s.source.Topic)
	if err != nil {
		return fmt.Errorf("subscribe to stream %s/%s: %w", s.source.DataCenter, s.source.Topic, err)
	}
	i.subscribed = true
	if again && i.noGroupBefore {
		s.source.Meter.Recreated.Add(1)
		s.log.Logger.Warn("the group of the stream was gone and is made again: entries may come twice",
			"stream", s.source.Topic, "group", s.source.Group)
	}
	for {
		select {
		case <-intake.Done():
			return nil
		case msg, ok := <-messages:
			if !ok {
				return errStockEnded
			}
			if !s.hand(intake, life, out, msg, i) {
				return nil
			}
		}
	}
}

// settings are the safe ones. The stock subscriber cannot begin a new group behind the newest entry once more: what came in between would be lost.
func (s *stockSubscriber) settings(client *redis.Client, i *inbox, again bool) stock.SubscriberConfig {
	oldest := "0"
	switch start := s.source.Start; {
	case start.Latest && !again:
		oldest = "$"
	case !start.Time.IsZero():
		oldest = startAt(start.Time).String()
	}
	return stock.SubscriberConfig{
		Client: client, Unmarshaller: i, Consumer: i.consumer, ConsumerGroup: s.source.Group, OldestId: oldest,
		NackResendSleep: s.connection.resend, BlockTime: blockTime, DisableIndefiniteInitialBlock: true,
		ClaimInterval: min(stockClaim, i.claimIdle/2), MaxIdleTime: i.claimIdle,
		ShouldClaimPendingMessage: func(p redis.XPendingExt) bool { return !i.has(p.ID) },
		// An entry may be pending whose answer got lost: after a new start it comes before any other.
		ShouldStopOnReadErrors: i.stopOn,
	}
}

// hand gives out a message, and the answer to it back to the stock one. It returns false when the intake has stopped.
func (s *stockSubscriber) hand(intake, life context.Context, out chan<- *message.Message, msg *message.Message, i *inbox) bool {
	r := i.last
	if r == nil {
		msg.Ack() // The entry was deleted while it was pending.
		i.lost(1)
		return true
	}
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	given := r.Message(ctx)
	select {
	case out <- given:
		s.source.Meter.Fetched.Add(1)
	case <-intake.Done():
		return false
	}
	stopping := intake.Done()
	var late <-chan time.Time
	for {
		select {
		case <-given.Acked():
			i.settled = r.Source.Position
			msg.Ack()
			return true
		case <-given.Nacked():
			s.source.Meter.Nacked.Add(1)
			msg.Nack()
			return intake.Err() == nil
		case <-stopping:
			stopping = nil
			timer := time.NewTimer(stockDrain)
			defer timer.Stop()
			late = timer.C
		case <-late:
			return false
		}
	}
}

// Close stops the intake and waits for the message in flight, up to 5 s: what is not acked by then comes again.
func (s *stockSubscriber) Close() error {
	s.mu.Lock()
	if !s.subscribed {
		s.subscribed = true
		s.stop = func() {}
		close(s.closed)
	}
	s.mu.Unlock()
	s.stop()
	<-s.closed
	return nil
}
