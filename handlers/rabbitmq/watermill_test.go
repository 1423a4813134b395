package rabbitmq_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/rabbitmq"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/integration/brokers"
)

func stockClient(c *rabbitmq.Config) { c.Client = rabbitmq.Watermill }

// newStockWell is a well whose subscriber is the stock one.
func newStockWell(t *testing.T, url string) *well {
	t.Helper()
	w := newWell(t, url)
	w.config, w.plain = stockClient, true
	return w
}

// newStockWorld is a world whose publisher is the stock one.
func newStockWorld(t *testing.T, url string) *world {
	t.Helper()
	w := newWorld(t, url)
	w.config = stockClient
	return w
}

// declareDurably makes the queue, and waits: one that is new does not survive a crash.
func (w *world) declareDurably() {
	w.Helper()
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclare(w.out, true, false, false, false, nil)
		require.NoError(w, err)
	})
	declared := time.Now()
	w.eventually(func() bool { return time.Since(declared) > 2*time.Second }, "time does not pass")
}

func TestTheStockClientCarriesWholeMessages(t *testing.T) {
	url := brokers.RabbitMQ(t, "a").URL()
	w, to := newStockWell(t, url), newStockWorld(t, url)
	w.declare(nil)
	sent := []amqp.Publishing{
		{
			Headers: amqp.Table{
				"int8": int8(-1), "time": time.Unix(1_600_000_000, 0), "bytes": []byte{0, 255}, "void": nil,
				"list": []any{"a", int32(1), amqp.Table{"x": true}}, "float": 1.5,
			},
			ContentType: "text/plain", ContentEncoding: "gzip", Priority: 3, CorrelationId: "c", ReplyTo: "r", Expiration: "3600000",
			MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", AppId: "a", DeliveryMode: amqp.Persistent, Body: []byte{0, 255, 1},
		},
		{DeliveryMode: amqp.Persistent, MessageId: "id-2", Headers: amqp.Table{record.IDKey: "id-2"}, Timestamp: time.Unix(1, 0), Body: []byte("b")},
	}
	w.channel(func(ch *amqp.Channel) {
		for _, p := range sent {
			require.NoError(t, ch.PublishWithContext(t.Context(), "", w.in, true, false, p))
		}
	})
	p, s := to.publisher(), w.subscriber()
	messages := w.subscribe(s)
	var want []*amqp.Delivery
	for range sent {
		msg := w.receive(messages)
		r := record.From(msg.Context())
		require.Equal(t, r.ID, msg.UUID)
		want = append(want, published(t, r))
		require.NoError(t, p.Publish(to.out, msg))
		msg.Ack()
	}
	require.NoError(t, s.Close())
	require.Zero(t, w.left())
	w.channel(func(ch *amqp.Channel) {
		for i := range want {
			d, ok, err := ch.Get(to.out, true)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, sent[i].ContentType, d.ContentType)
			require.Equal(t, sent[i].Body, d.Body)
			for name, field := range sent[i].Headers {
				require.Equal(t, plainField(field), plainField(d.Headers[name]), name)
			}
			d.Acknowledger, d.DeliveryTag, d.MessageCount, d.RoutingKey = nil, 0, 0, queue
			requireDelivered(t, want[i], &d)
		}
	})
}

func TestTheStockClientReadsInOrderAndStopsWithoutRepeats(t *testing.T) {
	for kind, arguments := range map[string]amqp.Table{
		"classic": nil, "quorum": {"x-queue-type": "quorum", "x-delivery-limit": int64(3)}, "single active consumer": {"x-single-active-consumer": true},
	} {
		t.Run(kind, func(t *testing.T) {
			w := newStockWell(t, brokers.RabbitMQ(t, "a").URL())
			w.declare(arguments)
			const n = 200
			w.produce(0, n)
			for i := range 4 {
				f := w.flow()
				w.settled(i*n/5 + 10)
				require.Less(t, f.stop(), 5*time.Second, "the stop took long")
				require.Less(t, w.committed(), n, "the backlog is too small")
				require.Equal(t, n-w.committed(), w.left())
			}
			f := w.flow()
			w.settled(n)
			w.isUp(true)
			f.stop()
			w.requireArrived(n, 0)
			require.Zero(t, w.left())
			require.Zero(t, w.source.Meter.Reconnects.Load())
		})
	}
}

func TestTheStockClientHasOneMessageInFlightAndPausesBeforeANackedOneComesAgain(t *testing.T) {
	w := newStockWell(t, brokers.RabbitMQ(t, "a").URL())
	w.declare(nil)
	w.produce(0, 2)
	s := w.subscriber()
	messages := w.subscribe(s)
	first := w.receive(messages)
	w.silent(messages)
	began := time.Now()
	for range 2 {
		first.Nack()
		first = w.receive(messages)
		require.Equal(t, "0", string(first.Payload))
	}
	require.Greater(t, time.Since(began), 1900*time.Millisecond)
	require.NoError(t, first.Context().Err())
	first.Ack()
	second := w.receive(messages)
	require.Equal(t, "1", string(second.Payload))
	require.Error(t, first.Context().Err())
	second.Ack()
	require.EqualValues(t, 2, w.source.Meter.Nacked.Load())
	w.within("close", func() { require.NoError(t, s.Close()) })
	require.Zero(t, w.left())
}

func TestAnAckThatComesWhileTheStockClientStopsCounts(t *testing.T) {
	w := newStockWell(t, brokers.RabbitMQ(t, "a").URL())
	w.declare(nil)
	const n = 5
	w.produce(0, n)
	for i := range n {
		s := w.subscriber()
		ctx, cancel := context.WithCancel(t.Context())
		messages, err := s.Subscribe(ctx, w.in)
		require.NoError(t, err)
		msg := w.receive(messages)
		cancel()
		w.silent(messages)
		require.NoError(t, msg.Context().Err(), "it is given up at once")
		msg.Ack()
		_, open := <-messages
		require.False(t, open)
		require.NoError(t, s.Close())
		require.Equal(t, n-1-i, w.left())
	}
}

func TestTheStockClientNeverMakesAQueueThatItReads(t *testing.T) {
	w := newStockWell(t, brokers.RabbitMQ(t, "a").URL())
	f := w.flow()
	require.ErrorContains(t, w.isUp(false), w.in+" does not exist: declare it, and the route goes on")
	w.channel(func(ch *amqp.Channel) {
		_, err := ch.QueueDeclarePassive(w.in, true, false, false, false, nil)
		require.Error(t, err, "it was made")
	})
	w.declare(nil)
	w.produce(0, 10)
	w.settled(10)
	w.isUp(true)
	w.delete(w.in)
	require.ErrorContains(t, w.isUp(false), w.in)
	w.declare(nil)
	w.produce(10, 20)
	w.settled(20)
	f.stop()
	w.requireArrived(20, 0)
}

func TestOfTwoStockInstancesOneStandsByAndTakesOver(t *testing.T) {
	for kind, arguments := range kinds() {
		t.Run(kind, func(t *testing.T) {
			w := newStockWell(t, brokers.RabbitMQ(t, "a").URL())
			w.declare(arguments)
			w.produce(0, 20)
			first := w.flow()
			w.settled(20)
			w.isUp(true)
			other := w.again()
			second := other.flow()
			require.ErrorContains(t, other.isUp(false), "another instance consumes, standing by")
			w.produce(20, 40)
			w.settled(40)
			other.stays(false)
			require.Zero(t, other.source.Meter.Fetched.Load())
			first.stop()
			w.produce(40, 60)
			other.settled(20)
			other.isUp(true)
			second.stop()
			w.requireArrived(60, 0)
		})
	}
}

func TestTheStockClientRefusesStreams(t *testing.T) {
	w := newStockWell(t, brokers.RabbitMQ(t, "a").URL())
	w.declare(amqp.Table{"x-queue-type": "stream"})
	w.produce(0, 10)
	f := w.flow()
	w.eventually(func() bool {
		_, _, err := w.source.Health.State()
		return err != nil && strings.Contains(err.Error(), "is a stream, which cannot be a source")
	}, "nobody says that it is a stream")
	w.stays(false)
	require.Zero(t, w.source.Meter.Fetched.Load())
	f.stop()
}

func TestTheStockClientSurvivesAServerThatCrashes(t *testing.T) {
	brokers.Long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	w, to := newStockWell(t, b.URL()), newStockWorld(t, b.URL())
	w.declare(nil)
	to.declareDurably()
	const n = 600
	w.produce(0, n)
	p, s := to.publisher(), w.subscriber()
	relay := handlers.NewRelay(to.destination, p, false)
	var running sync.WaitGroup
	messages := w.subscribe(s)
	running.Go(func() {
		for msg := range messages {
			if relay.Handle(msg) == nil {
				msg.Ack()
			} else {
				msg.Nack()
			}
		}
	})
	w.settled(n / 4)
	b.Kill(t)
	for _, h := range []*handlers.Health{w.source.Health, to.destination.Health} {
		w.eventually(func() bool { up, _, err := h.State(); return !up && err != nil }, "nobody noticed")
	}
	b.Start(t)
	w.eventually(func() bool { return to.count(to.out) >= n }, "not everything arrived")
	w.eventually(func() bool { return to.count(w.in) == 0 }, "not everything was acked")
	w.within("the stop", func() {
		require.NoError(t, s.Close())
		running.Wait()
		require.NoError(t, p.Close())
	})
	require.NotZero(t, w.source.Meter.Reconnects.Load())
	require.NotZero(t, to.destination.Meter.Reconnects.Load())
	t.Logf("%d came twice", to.requireOrder(to.arrived(to.out), n, 1))
}

func TestNothingThatTheStockPublisherSendsIsLostWhen(t *testing.T) {
	brokers.Long(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			w := newStockWorld(t, b.URL())
			w.declareDurably()
			r := w.start()
			w.produce(0, 300, 8)
			w.eventually(func() bool { return w.meter.Committed.Load() > 50 }, "nothing was acked")
			f.begin(t, b)
			w.produce(300, 600, 8)
			f.end(t, b)
			w.settled(600)
			r.stop()
			repeats := w.requireOrder(w.arrived(w.out), 600, 8)
			require.Zero(t, w.destination.Meter.Recreated.Load(), "the queue was gone")
			require.LessOrEqual(t, repeats, 16, "came twice")
			require.GreaterOrEqual(t, int(w.destination.Meter.Reconnects.Load()), f.reconnects)
			if f.reconnects == 0 {
				require.Zero(t, w.destination.Meter.Reconnects.Load(), "connections made again")
			}
		})
	}
}

func TestWhatIsReturnedToTheStockPublisherIsNoDelivery(t *testing.T) {
	w := newStockWorld(t, brokers.RabbitMQ(t, "a").URL())
	p := w.publisher()
	publish := func(id string) error { return p.Publish(w.out, message.NewMessage(id, []byte(id))) }
	w.eventually(func() bool { return publish("1") == nil }, "it does not connect")
	w.delete(w.out)
	require.Equal(t, handlers.ClassUnroutable, handlers.ClassOf(publish("2")))
	require.NoError(t, publish("2"))
	require.Equal(t, []string{"2"}, w.arrived(w.out))
	require.EqualValues(t, 1, w.destination.Meter.Recreated.Load())
}

func TestAFullQueueHoldsTheStockPublisher(t *testing.T) {
	w := newStockWorld(t, brokers.RabbitMQ(t, "a").URL())
	w.own.QueueArguments = map[string]any{"x-max-length": 10, "x-overflow": "reject-publish"}
	r := w.start()
	w.produce(0, 30, 1)
	w.held("is the queue full")
	var got []string
	w.eventually(func() bool {
		got = append(got, w.arrived(w.out)...)
		return w.meter.Committed.Load() == 30
	}, "it does not go on")
	r.stop()
	require.Zero(t, w.destination.Meter.Reconnects.Load())
	require.Zero(t, w.requireOrder(append(got, w.arrived(w.out)...), 30, 1))
}

func TestTheStockClientIsClosedWhateverRabbitMQDoes(t *testing.T) {
	lengthy(t)
	t.Parallel()
	b := brokers.RabbitMQOwn(t)
	for name, f := range map[string]func(w *well){
		"paused":  func(w *well) { b.Pause(w) },
		"blocked": func(w *well) { b.Ctl(w, "set_vm_memory_high_watermark", "0.0000001") },
		"gone":    func(w *well) { b.Kill(w) },
	} {
		t.Run(name, func(t *testing.T) {
			w, to := newStockWell(t, b.URL()), newStockWorld(t, b.URL())
			w.declare(nil)
			w.produce(0, 5)
			s, p := w.subscriber(), to.publisher()
			messages := w.subscribe(s)
			w.receive(messages).Ack()
			w.eventually(func() bool { return p.Publish(to.out, message.NewMessage("1", nil)) == nil }, "it does not connect")
			f(w)
			result := make(chan error, 1)
			go func() {
				for {
					if err := p.Publish(to.out, message.NewMessage("2", nil)); err != nil {
						result <- err
						return
					}
				}
			}()
			if name == "blocked" { // What it gets first it takes.
				w.eventually(func() bool {
					_, _, err := to.destination.Health.State()
					return err != nil && strings.Contains(err.Error(), "takes no messages for now")
				}, "nobody says that it is blocked")
			}
			began := time.Now()
			w.within("Close", func() { require.NoError(t, p.Close()) })
			w.within("Close", func() { require.NoError(t, s.Close()) })
			require.Less(t, time.Since(began), 15*time.Second)
			w.within("Publish", func() { require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(<-result)) })
			require.NoError(t, p.Close())
			require.NoError(t, s.Close())
			require.Equal(t, handlers.ClassUnavailable, handlers.ClassOf(p.Publish(to.out, message.NewMessage("3", nil))))
			_, err := s.Subscribe(t.Context(), w.in)
			require.Error(t, err)
			switch name {
			case "paused":
				b.Resume(t)
			case "blocked":
				b.Ctl(t, "set_vm_memory_high_watermark", "0.6")
			default:
				b.Start(t)
			}
		})
	}
}

// lines is a log that may be written from several goroutines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestTheStockClientLogsNothingForAMessageAndNoPassword(t *testing.T) {
	b := brokers.RabbitMQOwn(t)
	b.Ctl(t, "add_user", "ferry", "t0psecret")
	b.Ctl(t, "set_permissions", "ferry", ".*", ".*", ".*")
	w, to := newStockWell(t, b.URL()), newStockWorld(t, b.URL())
	log := &lines{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	as := func(c *rabbitmq.Config) { c.Client, c.Username, c.Password = rabbitmq.Watermill, "ferry", "t0psecret" }
	w.config, w.source.Logger, w.source.Health = as, logger, handlers.NewHealth(logger)
	to.config, to.destination.Logger, to.destination.Health = as, logger, handlers.NewHealth(logger)
	w.declare(nil)
	w.produce(0, 200)
	f, r := w.flow(), to.start()
	to.produce(0, 200, 4)
	w.settled(200)
	to.settled(200)
	b.Kill(t)
	for _, h := range []*handlers.Health{w.source.Health, to.destination.Health} {
		w.eventually(func() bool { up, _, err := h.State(); return !up && err != nil }, "nobody noticed")
	}
	b.Start(t)
	w.isUp(true)
	f.stop()
	r.stop()
	require.Less(t, strings.Count(log.String(), "\n"), 40, log)
	require.NotContains(t, log.String(), "t0psecret")
}

func TestReturnsAreSeenWhereverTheStreamIsCut(t *testing.T) {
	frame := func(kind byte, payload string) string {
		return string([]byte{kind, 0, 1, 0, 0, 0, byte(len(payload))}) + payload + "\xce"
	}
	returned := func(key string) string {
		return "\x00\x3c\x00\x32" + "\x01\x38" + "\x08NO_ROUTE" + "\x00" + string([]byte{byte(len(key))}) + key
	}
	for name, c := range map[string]struct {
		stream string
		want   bool
	}{
		"a return":              {frame(8, "") + frame(1, returned("q")) + frame(2, "header"), true},
		"one of another key":    {frame(1, returned("other")), false},
		"a confirm":             {frame(1, "\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00"), false},
		"a body that looks it":  {frame(3, frame(1, returned("q"))), false},
		"after all of these":    {frame(3, "\x00\x3c\x00\x32") + frame(1, "\x00\x3c\x00\x50") + frame(1, returned("q")), true},
		"one that is cut short": {frame(1, returned("q")[:16]), false},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Write([]byte(c.stream))
				_ = theirs.Close()
			}()
			require.Equal(t, c.want, rabbitmq.Returned(ours, "q"))
		})
	}
}
