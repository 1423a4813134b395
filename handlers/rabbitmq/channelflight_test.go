package rabbitmq

import (
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fakeConfirm is a confirm that a test gives.
type fakeConfirm struct {
	done chan struct{}
	ack  bool
}

func (f *fakeConfirm) Done() <-chan struct{} { return f.done }
func (f *fakeConfirm) Acked() bool           { return f.ack }

func (f *fakeConfirm) give(ack bool) {
	f.ack = ack
	close(f.done)
}

// fakeChannel is a channel that is open or not.
type fakeChannel bool

func (f fakeChannel) IsClosed() bool { return bool(f) }

const open, closed = fakeChannel(false), fakeChannel(true)

// written makes a flight of so many written messages, and their confirms.
func written(n int) (*flight, []*shipment, []*fakeConfirm) {
	f := &flight{}
	var all []*shipment
	var confirms []*fakeConfirm
	for i := range n {
		s := &shipment{key: "queue", publishing: amqp.Publishing{Body: []byte(strconv.Itoa(i))}}
		f.push(s)
		c := &fakeConfirm{done: make(chan struct{})}
		f.write().confirm = c
		all, confirms = append(all, s), append(confirms, c)
	}
	return f, all, confirms
}

func returnOf(s *shipment) *amqp.Return {
	return &amqp.Return{RoutingKey: s.key, Exchange: s.exchange, Body: s.publishing.Body, Headers: s.publishing.Headers}
}

func TestConfirmsOutOfOrderAreSeenInASweep(t *testing.T) {
	f, all, confirms := written(4)
	confirms[2].give(true)
	confirms[1].give(false)
	require.Zero(t, f.look(open, false))
	require.Empty(t, f.land(0, nil))
	require.Equal(t, []*shipment{all[1], all[2]}, f.land(f.look(open, true), nil))
	confirms[0].give(true)
	require.Equal(t, []*shipment{all[0]}, f.land(f.look(open, false), nil))
	require.Equal(t, 1, f.open)
	require.Same(t, all[3], f.oldest())
}

func TestTheNacksOfAChannelThatClosesCountForNothing(t *testing.T) {
	f, all, confirms := written(3)
	confirms[1].give(true)
	confirms[0].give(false)
	confirms[2].give(false)
	require.Equal(t, []*shipment{all[1]}, f.land(f.look(closed, true), nil))
	require.Equal(t, []*shipment{all[0], all[2]}, f.take())
}

func TestEqualMessagesAreReturnedOneAfterTheOther(t *testing.T) {
	f, all, _ := written(4)
	for _, s := range all {
		s.publishing.Body = []byte("same")
	}
	all[1].publishing.Headers = amqp.Table{"other": int32(1)}
	for _, want := range []*shipment{all[0], all[2], all[3], nil} {
		require.Same(t, want, f.match(returnOf(all[0])))
	}
	require.Equal(t, []*shipment{all[1]}, f.take())
}

func TestAReturnOutOfOrderIsFoundToo(t *testing.T) {
	f, all, _ := written(3)
	require.Same(t, all[2], f.match(returnOf(all[2])))
	require.Same(t, all[0], f.match(returnOf(all[0])))
	require.Same(t, all[1], f.match(returnOf(all[1])))
}

func TestReturnsAreComparedAsTheyAreOnTheWire(t *testing.T) {
	at := time.Unix(1700000000, 999)
	table := func() amqp.Table {
		return amqp.Table{
			"time": at, "bytes": []byte{0, 255}, "list": []any{int8(1), amqp.Table{"a": nil}}, "float": float32(1.5), "decimal": amqp.Decimal{Scale: 2, Value: 5},
		}
	}
	s := &shipment{publishing: amqp.Publishing{Headers: table(), Timestamp: at}}
	r := &amqp.Return{Headers: table(), Timestamp: at.Truncate(time.Second).UTC()}
	r.Headers["time"] = at.Truncate(time.Second).UTC()
	require.True(t, same(s, r))
	for name, other := range map[string]any{
		"time": at.Add(time.Second), "bytes": "\x00\xff", "list": []any{int8(1)}, "float": 1.5, "decimal": amqp.Decimal{Scale: 2, Value: 6},
	} {
		r.Headers = table()
		r.Headers[name] = other
		require.False(t, same(s, r), name)
	}
	r.Headers = table()
	r.Headers["more"] = true
	require.False(t, same(s, r))
}

// TestEveryMessageHasOneOutcome walks a flight through anything that may happen on a channel.
func TestEveryMessageHasOneOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &flight{}
		var all []*shipment
		confirms := map[*shipment]*fakeConfirm{}
		outcomes := map[*shipment]int{}
		wrote := 0
		pick := func() *shipment {
			if wrote == 0 {
				t.Skip("nothing is written")
			}
			return all[rapid.IntRange(0, wrote-1).Draw(t, "which")]
		}
		tell := func(list []*shipment) {
			for _, s := range list {
				if !s.returned {
					outcomes[s]++
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				s := &shipment{key: strconv.Itoa(len(all) % 3)}
				all = append(all, s)
				f.push(s)
			},
			"write": func(t *rapid.T) {
				s := f.next()
				if s == nil {
					t.Skip("nothing is queued")
				}
				require.Same(t, all[wrote], f.write())
				confirms[s] = &fakeConfirm{done: make(chan struct{})}
				s.confirm = confirms[s]
				wrote++
			},
			"confirm": func(t *rapid.T) {
				s := pick()
				if c := confirms[s]; !s.confirmed() {
					c.give(rapid.Bool().Draw(t, "ack"))
				}
			},
			"return": func(*rapid.T) {
				wanted := pick()
				if wanted.confirmed() {
					return // A return comes first.
				}
				if s := f.match(returnOf(wanted)); s != nil {
					outcomes[s]++
				}
			},
			"sweep": func(t *rapid.T) {
				tell(f.land(f.look(open, rapid.Bool().Draw(t, "all")), nil))
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(all)-wrote, f.queued())
				for _, s := range all {
					require.LessOrEqual(t, outcomes[s], 1)
				}
			},
		})
		last := -1
		for _, s := range f.take() {
			outcomes[s]++
			for i, other := range all {
				if other == s {
					require.Greater(t, i, last, "not the lowest first")
					last = i
				}
			}
		}
		for _, s := range all {
			require.Equal(t, 1, outcomes[s])
		}
	})
}

func TestALargeMessageOnASlowLinkTakesItsTime(t *testing.T) {
	c := newChannel(nil)
	c.flight.push(&shipment{})
	c.begin(&amqp.Channel{})
	longAgo := time.Now().Add(-time.Hour)
	require.Nil(t, c.overdue(time.Minute, false), "nothing is open")
	c.flight.write()
	c.moved, c.busy = longAgo, true
	require.Nil(t, c.overdue(time.Minute, true), "it is still being written")
	c.moved = longAgo
	require.NotNil(t, c.overdue(time.Minute, false), "the network stands still")
	require.Nil(t, c.overdue(time.Minute, false), "it is closed only once")
	c.begin(&amqp.Channel{})
	c.moved, c.busy = longAgo, false
	require.NotNil(t, c.overdue(time.Minute, true), "others are being written")
}
