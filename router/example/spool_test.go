package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/router"
)

// world is one spool, and how its subscribers behave.
type world struct {
	*testing.T
	root    string
	conn    handlers.Connection[spoolSource, spoolDestination]
	options spoolSource
	health  *handlers.Health
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, root: t.TempDir(), health: handlers.NewHealth(nil)}
	short := config.Duration(time.Millisecond)
	w.options = spoolSource{Poll: short, Pause: short, Grace: short}
	w.conn = w.open()
	return w
}

func (w *world) open() handlers.Connection[spoolSource, spoolDestination] {
	conn, err := openSpool(w.Context(), spoolConfig{Path: config.Path(w.root)}, handlers.Settings{})
	require.NoError(w, err)
	return conn
}

func (w *world) publisher() message.Publisher {
	p, err := w.conn.Publisher(handlers.Destination{}, spoolDestination{})
	require.NoError(w, err)
	return p
}

func (w *world) subscriber() message.Subscriber {
	s, err := w.conn.Subscriber(handlers.Source{Health: w.health}, w.options)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, s.Close()) })
	return s
}

func (w *world) subscribe(ctx context.Context, s message.Subscriber) <-chan *message.Message {
	messages, err := s.Subscribe(ctx, "x")
	require.NoError(w, err)
	return messages
}

func (w *world) publish(payloads ...string) {
	w.Helper()
	p := w.publisher()
	for _, payload := range payloads {
		require.NoError(w, p.Publish("x", message.NewMessage("id-"+payload, []byte(payload))))
	}
}

// drop lets somebody else put a file into the topic.
func (w *world) drop(name, content string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(filepath.Join(w.root, "x"), 0o755))
	require.NoError(w, os.WriteFile(filepath.Join(w.root, "x", name), []byte(content), 0o600))
}

// next gives the next message; nil when the channel is closed.
func (w *world) next(messages <-chan *message.Message) *message.Message {
	w.Helper()
	select {
	case msg := <-messages:
		return msg
	case <-time.After(patience):
		w.Fatal("no message came")
		return nil
	}
}

// files are the messages in the topic.
func (w *world) files() []string {
	names, err := filepath.Glob(filepath.Join(w.root, "x", "*.json"))
	require.NoError(w, err)
	return names
}

func TestWatermillsSuite(t *testing.T) {
	w := newWorld(t)
	// Each pub/sub has a connection of its own, as if it were in another process: then several deliver the same messages, and only one has them in order.
	tests.TestPubSub(t, tests.Features{
		Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
		ForceShort: true, // Each message is synced to the disk.
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		each := *w
		each.T, each.conn = t, w.open()
		return each.publisher(), each.subscriber()
	}, nil)
}

func TestAFailedMessageComesAgainBeforeItsSuccessors(t *testing.T) {
	w := newWorld(t)
	w.publish("1", "2")
	messages := w.subscribe(t.Context(), w.subscriber())
	for range 3 {
		msg := w.next(messages)
		require.Equal(t, "1", string(msg.Payload))
		require.Len(t, w.files(), 2)
		msg.Nack()
	}
	w.next(messages).Ack()
	require.Equal(t, "2", string(w.next(messages).Payload))
	require.Len(t, w.files(), 1)
}

func TestAMessageArrivesAsItWas(t *testing.T) {
	w := newWorld(t)
	for _, payload := range [][]byte{nil, {}, []byte("text <&>\u2028"), {0xff, 0, 0xfe}, []byte(`{"base64": "x"}`)} {
		msg := message.NewMessage("id\xff", payload)
		msg.Metadata = message.Metadata{"": "", "text": "a\nb", "bytes": "\x80\x81"}
		require.NoError(t, w.publisher().Publish("x", msg))
		s := w.subscriber()
		got := w.next(w.subscribe(t.Context(), s))
		require.Equal(t, msg.UUID, got.UUID)
		require.Equal(t, msg.Payload, got.Payload)
		require.Equal(t, msg.Metadata, got.Metadata)
		got.Ack()
		require.NoError(t, s.Close())
	}
}

func TestWhatIsNotInOurFormatIsCarriedAsItIs(t *testing.T) {
	w := newWorld(t)
	contents := map[string]string{
		"1.json": "hello\n", "2.json": `{"order": 1}`, "3.json": `{"payload": "a"} {"payload": "b"}`, "4.json": "", "5.json": `{"payload": {"base65": ""}}`,
	}
	for name, content := range contents {
		w.drop(name, content)
	}
	w.drop(".6.json", "hidden")
	w.drop("7.txt", "not complete")
	w.drop("8.json", `{"payload": "the last"}`)
	messages := w.subscribe(t.Context(), w.subscriber())
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		msg := w.next(messages)
		require.Equal(t, id, msg.UUID)
		require.Equal(t, contents[id+".json"], string(msg.Payload))
		msg.Ack()
	}
	require.Equal(t, "the last", string(w.next(messages).Payload))
}

func TestPublishedMessagesSortAfterThoseThatAreThereWhateverTheClockSays(t *testing.T) {
	w := newWorld(t)
	w.drop("8000000000000000000-FUTURE.json", `{"payload": "1"}`)
	w.drop("README.json", "9")
	w.publish("2", "3")
	messages := w.subscribe(t.Context(), w.subscriber())
	for _, want := range []string{"1", "2", "3", "9"} {
		msg := w.next(messages)
		require.Equal(t, want, string(msg.Payload))
		msg.Ack()
	}
}

func TestWhatCanNeverBePublishedIsPermanent(t *testing.T) {
	w := newWorld(t)
	for _, topic := range []string{"", ".", "..", "../x", "a/b", ".hidden", "a\x00b"} {
		err := w.publisher().Publish(topic, message.NewMessage("1", nil))
		require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(err), topic)
	}
	msg := message.NewMessage("1", nil)
	msg.Metadata.Set("\xff", "")
	require.Equal(t, handlers.ClassPermanent, handlers.ClassOf(w.publisher().Publish("x", msg)))
}

func TestAClosedPublisherRefuses(t *testing.T) {
	w := newWorld(t)
	p := w.publisher()
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Publish("x", message.NewMessage("1", nil)), errClosed)
}

func TestAStopWaitsForTheAckOfTheMessageInFlight(t *testing.T) {
	w := newWorld(t)
	w.options.Grace = config.Duration(patience)
	w.publish("1", "2")
	ctx, stop := context.WithCancel(t.Context())
	s := w.subscriber()
	messages := w.subscribe(ctx, s)
	msg := w.next(messages)
	stop()
	<-msg.Context().Done()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
		t.Fatal("it was closed before the ack")
	case <-time.After(20 * time.Millisecond):
	}
	msg.Ack()
	require.NoError(t, <-closed)
	require.Nil(t, w.next(messages))
	require.Len(t, w.files(), 1)
}

func TestCloseDoesNotWaitForAnAckForEver(t *testing.T) {
	w := newWorld(t)
	w.publish("1")
	s := w.subscriber()
	w.next(w.subscribe(t.Context(), s))
	for range 2 {
		require.NoError(t, s.Close())
	}
	require.Len(t, w.files(), 1)
	_, err := s.Subscribe(t.Context(), "x")
	require.ErrorIs(t, err, errClosed)
}

func TestCloseEndsAReaderWhoseMessagesNobodyTakes(t *testing.T) {
	w := newWorld(t)
	w.options.Grace = config.Duration(patience)
	w.publish("1")
	for range 50 { // In most of them the reader waits for somebody to take the message.
		w.health = handlers.NewHealth(nil)
		s := w.subscriber()
		w.subscribe(t.Context(), s)
		require.NoError(t, w.health.Await(t.Context()))
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		select {
		case err := <-closed:
			require.NoError(t, err)
		case <-time.After(patience / 2):
			t.Fatal("it was not closed")
		}
	}
}

func TestATopicHasOneSubscriberAtATime(t *testing.T) {
	w := newWorld(t)
	first, second := w.subscriber(), w.subscriber()
	w.subscribe(t.Context(), first)
	_, err := second.Subscribe(t.Context(), "x")
	require.ErrorContains(t, err, `topic "x" has a subscriber already`)
	require.NoError(t, first.Close())
	w.subscribe(t.Context(), second)
}

func TestASpoolThatCannotBeReadIsShownAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	messages := w.subscribe(t.Context(), w.subscriber())
	require.NoError(t, os.Remove(filepath.Join(w.root, "x")))
	require.Eventually(t, func() bool {
		up, _, err := w.health.State()
		return !up && errors.Is(err, os.ErrNotExist)
	}, patience, time.Millisecond)
	w.publish("1")
	require.Equal(t, "1", string(w.next(messages).Payload))
	up, _, _ := w.health.State()
	require.True(t, up)
}

func TestTheConfigurationsOfThisFolderAreValid(t *testing.T) {
	_, err := router.Load([]string{"example.yml"}, options()...)
	require.NoError(t, err)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, block)
	cfg, err := router.Parse("README.md", block[1], options()...)
	require.NoError(t, err)
	_, source, _ := defaultSpool()
	written := source
	require.NoError(t, cfg.Routes[0].From.Options.Decode(&written))
	require.Equal(t, source, written, "the README says what the defaults are")
}

func TestMistakesInTheOptionsAreFoundByTheLoader(t *testing.T) {
	_, err := router.Parse("test.yml", []byte(`
datacenters: {a: {spool: {path: in}}, b: {spool: {}}}
routes:
  - {name: one, from: {datacenter: a, topic: ../x, poll: 0, pause: 0}, to: a/y, middleware: [{stamp: {header: ""}}]}
  - {name: two, from: a/../x, to: a/y, middleware: [{stamp: {header: _watermill_message_uuid}}]}
`), options()...)
	for _, want := range []string{
		`datacenters.b.spool.path: is missing`, `routes[0].from.poll: is 0`, `routes[0].from.pause: is 0`, `routes[1].from.topic: "../x" is no name of a folder`,
		`stamp.header: is empty`, `stamp.header: "_watermill_message_uuid" is the id of a message`,
	} {
		require.ErrorContains(t, err, want)
	}
}
