package handlers

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// Connection is what a broker's Open returns: one data center, shared by its routes. S and D are the broker's own options of a source
// and of a destination. All methods are safe for concurrent use.
type Connection[S, D any] interface {
	// Subscriber makes the subscriber of one route. It does not connect: Subscribe does, and tries for ever.
	Subscriber(Source, S) (message.Subscriber, error)
	// Publisher makes the publisher of one route. Publish blocks until the broker has confirmed, may be called for thousands
	// of messages at once, and returns errors that have a class.
	Publisher(Destination, D) (message.Publisher, error)
	// Close ends what the connection holds for all routes. It is called after their subscribers and publishers are closed.
	Close() error
}

// Inspector is an ability that a Connection may have: to tell what a route would find, without consuming or creating anything.
type Inspector[S, D any] interface {
	InspectSource(context.Context, Source, S) (string, error)
	InspectDestination(context.Context, Destination, D) (string, error)
}

// Placed is an ability that the options of an end may have: to name the place when the file names no topic, as a RabbitMQ exchange does. Group is that of
// a source, and empty for a destination. An empty place means that a topic is needed.
type Placed interface{ Place(group string) string }

// PoisonQueue is an ability that the options of a destination may have: to give those that a poison queue is made with, so that it can be listed and
// messages can be taken out of it.
type PoisonQueue[D any] interface{ ForPoison() D }

// PoisonChecker is an ability that the options of a destination may have: to report those with which a poison queue would lose messages, or could not be listed.
type PoisonChecker interface{ CheckPoison() error }

// SourceChecker is an ability that the options of a data center may have: to check those of a source there, and what the route says of it.
type SourceChecker[S any] interface{ CheckSource(config.Source, S) error }

// DestinationChecker is the same for a destination.
type DestinationChecker[D any] interface {
	CheckDestination(config.Destination, D) error
}

// Partitioned is an ability that a Connection may have: its topics are divided into a number of partitions.
type Partitioned interface {
	// Partitions counts the partitions of topic.
	Partitions(ctx context.Context, topic string) (int, error)
}

// Settings are what the router hands to a broker's Open.
type Settings struct {
	DataCenter string       // Its name in the config file.
	Instance   string       // The name of this process, the same after a restart; unique among those that share a group.
	Logger     *slog.Logger // Never nil.
}

// Source is one route's end at the first broker.
type Source struct {
	Route      string
	DataCenter string
	Topic      string
	Group      string       // Consumer group.
	Start      config.Start // Where to begin if the group has no position.
	Window     int          // Most messages of one lane in flight.
	Strict     bool         // One message of a lane on the wire at a time.
	// Concurrency is how many messages of a lane may be in the route's middleware at once; zero means as many as are in flight.
	Concurrency int
	Bytes       int64        // Bytes of the route in flight; a broker's own fetch buffers should stay below a quarter of it.
	Budget      *lane.Budget // The route's part of the memory. Nil means no limit.
	Backoff     lane.Backoff // The pause of a lane after a failure on the way; zero means 100 ms at first, doubling up to 5 s.
	Logger      *slog.Logger // These three are never nil for a broker: a Conn fills in what is left out.
	Meter       *Meter
	Health      *Health
	// Destination is what is known of the other end. A broker that counts deliveries, or gives up on a consumer that does not ack, waits
	// for it before it consumes again. Nil means that nothing is known.
	Destination *Health
}

func (s Source) backoff() lane.Backoff {
	if s.Backoff == (lane.Backoff{}) {
		return defaultBackoff()
	}
	return s.Backoff
}

// Destination is one route's end at the second broker.
type Destination struct {
	Route      string
	DataCenter string
	Topic      string           // As the file has it; the name of the place where it has none.
	Template   *record.Template // Fills the topic for each message; nil when all go to the same one.
	// GiveUp lists the classes of no for which a message is given up where its lane would otherwise hold: full, unroutable. The chain
	// then sees the error, as it sees that of a refused message.
	GiveUp []Class
	// SourcePartitions counts the partitions of the source's topic; nil when its lanes are not partitions.
	SourcePartitions func(context.Context) (int, error)
	Logger           *slog.Logger // These three as in a Source.
	Meter            *Meter
	Health           *Health
}

// Broker is a kind of broker: one line in the router's table.
type Broker interface {
	// DataCenter decodes and checks the options of one data center. It does not connect. With an error it still returns something
	// that can check the options of sources and destinations, so that all mistakes are found at once.
	DataCenter(config.Raw) (DataCenter, error)
	// Defaults gives the options of a data center, a source and a destination that the file says nothing about.
	Defaults() (dataCenter, source, destination any)
}

// DataCenter is one data center's decoded options.
type DataCenter interface {
	// SourceOptions and DestinationOptions decode and check the options of a route's ends there.
	SourceOptions(config.Source) (Options, error)
	DestinationOptions(config.Destination) (Options, error)
	// PoisonOptions is DestinationOptions for a poison queue: see PoisonQueue.
	PoisonOptions(config.Destination) (Options, error)
	// Open connects. It fails when the broker cannot be reached: the router tries again.
	Open(context.Context, Settings) (Conn, error)
}

// Options are a source's or a destination's own, decoded by the data center that is to use them.
type Options any

// Conn is an open Connection with the types of its options erased.
type Conn interface {
	Subscriber(Source, Options) (message.Subscriber, error)
	Publisher(Destination, Options) (message.Publisher, error)
	// InspectSource and InspectDestination return "" when the broker is not an Inspector.
	InspectSource(context.Context, Source, Options) (string, error)
	InspectDestination(context.Context, Destination, Options) (string, error)
	// Browse fails when the broker is not a Browser.
	Browse(context.Context, Destination, Options) (Browsing, error)
	// Unwrap gives the broker's own Connection, to look for its abilities.
	Unwrap() any
	Close() error
}

// NewBroker makes a broker from its default options, of a data center, a source and a destination, and the function that opens it.
func NewBroker[C, S, D any](defaults func() (C, S, D), open func(context.Context, C, Settings) (Connection[S, D], error)) Broker {
	return broker[C, S, D]{defaults: defaults, open: open}
}

type broker[C, S, D any] struct {
	defaults func() (C, S, D)
	open     func(context.Context, C, Settings) (Connection[S, D], error)
}

func (b broker[C, S, D]) Defaults() (dataCenter, source, destination any) { return b.defaults() }

func (b broker[C, S, D]) DataCenter(raw config.Raw) (DataCenter, error) {
	c, _, _ := b.defaults()
	err := raw.Decode(&c)
	return dataCenter[C, S, D]{broker: b, config: c}, err
}

type dataCenter[C, S, D any] struct {
	broker broker[C, S, D]
	config C
}

func (d dataCenter[C, S, D]) SourceOptions(source config.Source) (Options, error) {
	_, s, _ := d.broker.defaults()
	err := source.Options.Decode(&s)
	if c, ok := any(d.config).(SourceChecker[S]); ok && err == nil {
		err = source.Options.Locate(c.CheckSource(source, s))
	}
	return s, err
}

func (d dataCenter[C, S, D]) DestinationOptions(destination config.Destination) (Options, error) {
	_, _, o := d.broker.defaults()
	return d.destination(destination, o)
}

func (d dataCenter[C, S, D]) PoisonOptions(destination config.Destination) (Options, error) {
	_, _, o := d.broker.defaults()
	if q, ok := any(o).(PoisonQueue[D]); ok {
		o = q.ForPoison()
	}
	options, err := d.destination(destination, o)
	if c, ok := options.(PoisonChecker); ok && err == nil {
		err = destination.Options.Locate(c.CheckPoison())
	}
	return options, err
}

func (d dataCenter[C, S, D]) destination(destination config.Destination, o D) (Options, error) {
	err := destination.Options.Decode(&o)
	if c, ok := any(d.config).(DestinationChecker[D]); ok && err == nil {
		err = destination.Options.Locate(c.CheckDestination(destination, o))
	}
	return o, err
}

func (d dataCenter[C, S, D]) Open(ctx context.Context, s Settings) (Conn, error) {
	c, err := d.broker.open(ctx, d.config, s)
	if err != nil {
		return nil, err
	}
	return conn[S, D]{c}, nil
}

// conn is the one place where the types of the options are found again.
type conn[S, D any] struct{ typed Connection[S, D] }

func (c conn[S, D]) Subscriber(s Source, o Options) (message.Subscriber, error) {
	complete(&s.Logger, &s.Meter, &s.Health)
	made, err := c.typed.Subscriber(s, o.(S))
	if err != nil { // Whatever came with it may be a nil in an interface that is not.
		return nil, err
	}
	return made, nil
}

func (c conn[S, D]) Publisher(d Destination, o Options) (message.Publisher, error) {
	complete(&d.Logger, &d.Meter, &d.Health)
	made, err := c.typed.Publisher(d, o.(D))
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (c conn[S, D]) InspectSource(ctx context.Context, s Source, o Options) (string, error) {
	if i, ok := c.typed.(Inspector[S, D]); ok {
		return i.InspectSource(ctx, s, o.(S))
	}
	return "", nil
}

func (c conn[S, D]) InspectDestination(ctx context.Context, d Destination, o Options) (string, error) {
	if i, ok := c.typed.(Inspector[S, D]); ok {
		return i.InspectDestination(ctx, d, o.(D))
	}
	return "", nil
}

// complete lets a broker rely on what may be left out.
func complete(l **slog.Logger, m **Meter, h **Health) {
	if *l == nil {
		*l = slog.New(slog.DiscardHandler)
	}
	if *m == nil {
		*m = &Meter{}
	}
	if *h == nil {
		*h = NewHealth(*l)
	}
}

func (c conn[S, D]) Unwrap() any  { return c.typed }
func (c conn[S, D]) Close() error { return c.typed.Close() }
