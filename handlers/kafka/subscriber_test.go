package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/kafka"
	"github.com/mqferry/mqferry/handlers/lane"
	"github.com/mqferry/mqferry/handlers/record"
)

// member is a subscriber in a group. It sends what it gets in the order of the lanes, many at a time, and confirms it some time later.
type member struct {
	*testing.T
	subscriber message.Subscriber
	source     handlers.Source
	running    sync.WaitGroup
	sent       func(*message.Message)
	confirm    func() // Returns when the next message may be confirmed.
}

func soon() { <-time.After(20 * time.Millisecond) }

func source(topic string) handlers.Source {
	return handlers.Source{
		Route: "r", DataCenter: "here", Topic: topic, Group: "g", Window: 500, Bytes: 64 << 20,
		Backoff: lane.Backoff{Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond},
		Meter:   &handlers.Meter{}, Health: handlers.NewHealth(nil),
	}
}

func newMember(t *testing.T, address, instance string, s handlers.Source, sent func(*message.Message)) *member {
	t.Helper()
	return newSlowMember(t, address, instance, s, sent, soon)
}

func newSlowMember(t *testing.T, address, instance string, s handlers.Source, sent func(*message.Message), confirm func()) *member {
	t.Helper()
	_, options, _ := kafka.DefaultConfig()
	options.SessionTimeout = config.Duration(6 * time.Second)
	subscriber, err := connect(t, address, instance).Subscriber(s, options)
	require.NoError(t, err)
	m := &member{T: t, subscriber: subscriber, source: s, sent: sent, confirm: confirm}
	messages, err := subscriber.Subscribe(context.Background(), s.Topic)
	require.NoError(t, err)
	relay := handlers.NewRelay(handlers.Destination{Meter: &handlers.Meter{}, Health: handlers.NewHealth(nil)}, m, true)
	m.running.Go(func() {
		for msg := range messages {
			m.running.Go(func() {
				if relay.Handle(msg) == nil {
					msg.Ack()
				} else {
					msg.Nack()
				}
			})
		}
	})
	t.Cleanup(m.abort)
	return m
}

// Publish makes the member the destination of its own messages.
func (m *member) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		turn := handlers.TurnOf(msg)
		if err := turn.Send(func() { m.sent(msg) }); err != nil {
			return err
		}
		m.confirm()
		turn.Done(nil)
	}
	return nil
}

// Close does nothing: it is there for a publisher's sake.
func (*member) Close() error { return nil }

func (m *member) close() {
	require.NoError(m, m.subscriber.Close())
	m.running.Wait()
}

func (m *member) abort() {
	m.subscriber.(interface{ Abort() }).Abort()
	_ = m.subscriber.Close()
	m.running.Wait()
}

// catch gathers the offsets that came, by partition.
type catch struct {
	mu      sync.Mutex
	offsets map[string][]int
	count   int
}

func (c *catch) add(msg *message.Message) {
	s := record.From(msg.Context()).Source
	offset, _ := strconv.Atoi(s.Position)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offsets == nil {
		c.offsets = map[string][]int{}
	}
	c.offsets[s.Lane] = append(c.offsets[s.Lane], offset)
	c.count++
}

func (c *catch) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *catch) await(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return c.total() >= n }, patience, 2*time.Millisecond, "fewer than %d messages came", n)
}

// fill produces n messages to each partition.
func fill(t *testing.T, address, topic string, partitions, n int) {
	t.Helper()
	fillWith(t, newClient(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner())), topic, partitions, n)
}

func fillWith(t *testing.T, client *kgo.Client, topic string, partitions, n int) {
	t.Helper()
	var all []*kgo.Record
	for p := range partitions {
		for i := range n {
			all = append(all, &kgo.Record{Topic: topic, Partition: int32(p), Value: []byte(fmt.Sprintf("%d/%d", p, i))})
		}
	}
	require.NoError(t, client.ProduceSync(t.Context(), all...).FirstErr())
}

func committed(t *testing.T, address string) map[int32]int64 {
	t.Helper()
	offsets, err := kadm.NewClient(newClient(t, address)).FetchOffsets(t.Context(), "g")
	if !errors.Is(err, kerr.GroupIDNotFound) {
		require.NoError(t, err)
	}
	at := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) { at[o.Partition] = o.At })
	return at
}

func span(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestMembersThatComeAndGoUnderLoadLoseRepeatAndReorderNothing(t *testing.T) {
	const partitions, n = 6, 4000
	w := newWorld(t, kfake.SeedTopics(partitions, "in"))
	fill(t, w.address(), "in", partitions, n)
	var c catch
	join := func(name string) *member {
		s := source("in")
		s.Window = 50
		m := newMember(t, w.address(), name, s, c.add)
		require.Eventually(t, func() bool { return s.Meter.Committed.Load() > 100 }, patience, time.Millisecond)
		return m
	}
	a, b := join("a"), join("b")
	a.close()
	d := join("d")
	require.Less(t, c.total(), partitions*n, "it was over before everybody had come and gone")
	c.await(t, partitions*n)
	d.close()
	b.close()
	for p := range partitions {
		require.Equal(t, span(n), c.offsets[strconv.Itoa(p)], "partition %d", p)
		require.EqualValues(t, n, committed(t, w.address())[int32(p)])
	}
}

func TestOthersTakeOverAtOnceFromAMemberThatStopped(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(2, "in"))
	fill(t, w.address(), "in", 2, 100)
	var c catch
	a := newMember(t, w.address(), "a", source("in"), c.add)
	c.await(t, 200)
	b := newMember(t, w.address(), "b", source("in"), c.add)
	require.Eventually(t, func() bool { up, _, _ := b.source.Health.State(); return up }, patience, time.Millisecond)
	a.close()
	fill(t, w.address(), "in", 2, 100)
	began := time.Now()
	c.await(t, 400)
	require.Less(t, time.Since(began), 4*time.Second) // The session lasts 6.
	require.Equal(t, span(200), c.offsets["0"])
}

func TestAProcessThatComesBackUnderItsNameNeedNotWaitForItsOwnDeath(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(2, "in"))
	fill(t, w.address(), "in", 2, 100)
	var c catch
	first := newMember(t, w.address(), "a", source("in"), c.add)
	c.await(t, 200)
	require.Eventually(t, func() bool { return first.source.Meter.Committed.Load() == 200 }, patience, time.Millisecond)
	end := w.outage(t) // The first can neither commit nor leave.
	first.abort()
	end()
	fill(t, w.address(), "in", 2, 100)
	began := time.Now()
	newMember(t, w.address(), "a", source("in"), c.add)
	c.await(t, 400)
	require.Less(t, time.Since(began), 4*time.Second)
	require.Equal(t, span(200), c.offsets["0"])
}

func TestASourceTopicMadeAgainIsReadFromItsBeginning(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			w := newWorld(t, kfake.SeedTopics(1, "in"))
			fill(t, w.address(), "in", 1, 300)
			var c catch
			m := newMember(t, w.address(), "a", source("in"), c.add)
			c.await(t, 300)
			require.Eventually(t, func() bool { return m.source.Meter.Committed.Load() == 300 }, patience, time.Millisecond)
			if !running {
				m.close()
			}
			admin := kadm.NewClient(newClient(t, w.address()))
			_, err := admin.DeleteTopic(t.Context(), "in")
			require.NoError(t, err)
			_, err = admin.CreateTopic(t.Context(), 1, 1, nil, "in")
			require.NoError(t, err)
			fill(t, w.address(), "in", 1, 500) // More than the old topic's position.
			if !running {
				m = newMember(t, w.address(), "a", source("in"), c.add)
			}
			c.await(t, 800)
			m.close()
			require.Equal(t, append(span(300), span(500)...), c.offsets["0"])
			require.EqualValues(t, 1, m.source.Meter.Recreated.Load())
			require.EqualValues(t, 500, committed(t, w.address())[0])
			require.Less(t, m.source.Meter.Reconnects.Load(), int64(20), "a hot loop")
		})
	}
}

func TestAGroupWithoutAPositionBeginsWhereItIsTold(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(1, "in"))
	client := newClient(t, w.address())
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for i := range 10 {
		r := &kgo.Record{Topic: "in", Value: []byte("x"), Timestamp: noon.Add(time.Duration(i) * time.Minute)}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	for _, c := range []struct {
		name  string
		start config.Start
		want  []int
	}{
		{"earliest", config.Start{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"time", config.Start{Time: noon.Add(6 * time.Minute)}, []int{6, 7, 8, 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got catch
			s := source("in")
			s.Group, s.Start = c.name, c.start
			newMember(t, w.address(), "", s, got.add)
			got.await(t, len(c.want))
			require.Equal(t, c.want, got.offsets["0"])
		})
	}
}

func TestALatestStartIsTheFirstOne(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(2, "in"))
	fill(t, w.address(), "in", 2, 10)
	s := source("in")
	s.Start = config.Start{Latest: true}
	var c catch
	m := newMember(t, w.address(), "", s, c.add)
	require.Eventually(t, func() bool { at := committed(t, w.address()); return at[0] == 10 && at[1] == 10 }, patience, 5*time.Millisecond)
	m.close()

	fill(t, w.address(), "in", 2, 5) // While nobody reads, into partitions in which nothing was ever read.
	_, err := kadm.NewClient(newClient(t, w.address())).CreatePartitions(t.Context(), 1, "in")
	require.NoError(t, err)
	fill(t, w.address(), "in", 3, 3)
	newMember(t, w.address(), "", s, c.add)
	c.await(t, 19)
	require.Equal(t, []int{10, 11, 12, 13, 14, 15, 16, 17}, c.offsets["0"])
	require.Equal(t, []int{10, 11, 12, 13, 14, 15, 16, 17}, c.offsets["1"])
	require.Equal(t, []int{0, 1, 2}, c.offsets["2"])
}

func TestWhatATransactionAbortedIsNeverRead(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(1, "in"))
	client := newClient(t, w.address(), kgo.TransactionalID("tx"))
	for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		require.NoError(t, client.BeginTransaction())
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte(strconv.Itoa(i))}).FirstErr())
		require.NoError(t, client.EndTransaction(t.Context(), commit))
	}
	var c catch
	m := newMember(t, w.address(), "", source("in"), c.add)
	c.await(t, 2)
	m.close()
	require.Equal(t, []int{0, 4}, c.offsets["0"])
	require.EqualValues(t, 5, committed(t, w.address())[0])
}

func TestMemoryIsBoundedWhileNothingIsAcked(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.SnappyCompression()} { // Zeros become 20 times smaller.
		const partitions, size, budget = 16, 100_000, 8 << 20
		w := newWorld(t, kfake.SeedTopics(partitions, "in"))
		client := newClient(t, w.address(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec))
		for p := range partitions {
			for range 20 {
				r := &kgo.Record{Topic: "in", Partition: int32(p), Value: make([]byte, size)}
				require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
			}
		}
		s := source("in")
		s.Bytes, s.Budget = budget, lane.NewBudget(budget)
		var c catch
		block := make(chan struct{})
		free := sync.OnceFunc(func() { close(block) })
		m := newSlowMember(t, w.address(), "", s, c.add, func() { <-block })
		t.Cleanup(free)
		var last int64
		require.Eventually(t, func() bool { // It fills up, and comes to rest.
			was := last
			last = s.Meter.Fetched.Load()
			return last > 0 && last == was
		}, patience, 700*time.Millisecond)
		require.Greater(t, last*size, int64(budget/2))
		require.LessOrEqual(t, last*size, int64(budget+budget/4+partitions*size))
		free()
		c.await(t, partitions*20)
		m.close()
		require.Len(t, c.offsets, partitions)
		require.Equal(t, span(20), c.offsets["7"])
	}
}

func TestEveryIDHeaderIsCarriedAndTheLastOneIsTheID(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(1, "in"))
	client := newClient(t, w.address())
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("x"), Headers: []kgo.RecordHeader{
		{Key: record.IDKey, Value: []byte("one")}, {Key: "a", Value: nil}, {Key: record.IDKey, Value: []byte("two")},
	}}, &kgo.Record{Topic: "in", Value: []byte("y")}).FirstErr())
	ids := make(chan *record.Record, 2)
	newMember(t, w.address(), "", source("in"), func(msg *message.Message) { ids <- record.From(msg.Context()) })
	first, second := <-ids, <-ids
	require.Equal(t, "two", first.ID)
	require.Equal(t, []record.Header{{Key: record.EscapedPrefix + record.IDKey, Value: []byte("one")}, {Key: "a"}}, first.Headers)
	require.Equal(t, "here/in/0@1", second.ID)
}
