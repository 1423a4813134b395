package kafka

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/mqferry/mqferry/handlers"
)

const (
	// revisit is how often a topic is looked at again while messages go there.
	revisit = time.Minute
	// pause is how long a topic that was not found, or could not be asked for, is not asked for again.
	pause = 250 * time.Millisecond
	// mostQuestions is how many questions that failed are remembered beyond their pause.
	mostQuestions = 100
)

// topic is what a publisher knows of a destination topic.
type topic struct {
	name    string
	id      kadm.TopicID
	domains []*domain
	keep    bool // Keep the source's partition.
	gone    bool // Deleted, perhaps made again since; guarded by the publisher's lock.

	compacted atomic.Bool
	limit     atomic.Int64 // max.message.bytes.
	batches   atomic.Int64 // The largest batch to be made: the limit, or less when batches of that size were too large.
	checked   atomic.Int64 // When it was last looked at, in Unix nanoseconds.
}

func (t *topic) age() time.Duration { return time.Since(time.Unix(0, t.checked.Load())) }

// catalog is what a publisher knows of its topics. One that was written to is remembered as long as the publisher lives. Safe for concurrent use.
type catalog struct {
	publisher *publisher
	known     sync.Map // string to *topic

	asking    sync.Mutex
	questions map[string]*question // About topics that are not known.

	lost map[string]kadm.TopicID // Of topics that were found missing; guarded by the publisher's lock.
}

// question is asked of the cluster by the first who wants to know; the others wait for the answer. One that failed holds for a moment.
type question struct {
	done  chan struct{}
	at    time.Time // Of the answer.
	topic *topic
	err   error
}

func (q *question) over() bool { return !q.at.IsZero() && time.Since(q.at) >= pause }

// topic gives what is known of a topic, and asks the cluster the first time. A topic that is missing is made, if the configuration says so. One
// topic's trouble holds up nobody who wants another one.
func (c *catalog) topic(name string) (*topic, error) {
	if t, ok := c.known.Load(name); ok {
		t := t.(*topic)
		if t.age() > revisit {
			c.revisit(t)
		}
		return t, nil
	}
	c.asking.Lock()
	if t, ok := c.known.Load(name); ok {
		c.asking.Unlock()
		return t.(*topic), nil
	}
	if q := c.questions[name]; q != nil && !q.over() {
		c.asking.Unlock()
		<-q.done
		return q.topic, q.err
	}
	q := &question{done: make(chan struct{})}
	c.note(name, q)
	c.asking.Unlock()
	q.topic, q.err = c.load(name)
	c.answered(name, q)
	return q.topic, q.err
}

// note remembers a question, and forgets those that are over when they are many. The lock is held.
func (c *catalog) note(name string, q *question) {
	if c.questions == nil {
		c.questions = map[string]*question{}
	}
	if len(c.questions) >= mostQuestions {
		maps.DeleteFunc(c.questions, func(_ string, old *question) bool { return old.over() })
	}
	c.questions[name] = q
}

func (c *catalog) answered(name string, q *question) {
	c.asking.Lock()
	defer c.asking.Unlock()
	q.at = time.Now()
	if q.err == nil {
		c.known.Store(name, q.topic)
		delete(c.questions, name)
	}
	close(q.done)
}

func (c *catalog) load(name string) (*topic, error) {
	p := c.publisher
	detail, err := p.conn.topicOrNew(p.life, name, p.config)
	if err != nil {
		return nil, misnamed(p.destination, err)
	}
	t := &topic{name: name, id: detail.id}
	if t.keep, err = keeps(p.life, p.destination, &p.config, name, detail.partitions); err != nil {
		return nil, err
	}
	if err := c.readLimits(t); err != nil {
		return nil, err
	}
	t.batches.Store(t.limit.Load())
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := c.lost[name]; ok {
		delete(c.lost, name)
		p.destination.Meter.Recreated.Add(1)
		p.destination.Logger.Warn("the destination topic was missing and is there again", "topic", name, "same", id == detail.id)
	}
	for i := range detail.partitions {
		t.domains = append(t.domains, &domain{publisher: p, topic: t, partition: int32(i)})
	}
	p.domains = append(p.domains, t.domains...)
	if p.fit(t) {
		p.replace()
	}
	return t, nil
}

// misnamed finds whose fault a topic is that cannot be made with its name: the message's, if that names it, and otherwise the configuration's.
func misnamed(d handlers.Destination, err error) error {
	if handlers.ClassOf(err) == handlers.ClassPermanent && d.Template == nil {
		return handlers.Unroutable(err)
	}
	return err
}

// revisit reads the topic's limits again, not in the way of messages.
func (c *catalog) revisit(t *topic) {
	p := c.publisher
	t.checked.Store(time.Now().UnixNano())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.background.Go(func() {
		lowered := c.refresh(t)
		c.comparePartitions(t)
		p.mu.Lock()
		defer p.mu.Unlock()
		if lowered {
			p.replace()
		}
	})
}

// comparePartitions warns when partitions were added: a lane that changed its partition would lose its order, so it does not until the next start.
func (c *catalog) comparePartitions(t *topic) {
	p := c.publisher
	detail, err := p.conn.topic(p.life, t.name)
	if err == nil && detail.partitions != len(t.domains) && detail.id == t.id {
		p.destination.Logger.Warn("the number of partitions changed: the new ones are used after a restart of the route",
			"topic", t.name, "used", len(t.domains), "now", detail.partitions)
	}
}

// forget drops a topic that was deleted: it is looked up anew for the next message. The publisher's lock is held.
func (c *catalog) forget(t *topic) {
	if t.gone {
		return
	}
	t.gone = true
	c.known.CompareAndDelete(t.name, t)
	if c.lost == nil {
		c.lost = map[string]kadm.TopicID{}
	}
	c.lost[t.name] = t.id
}

// domain finds a partition, for the client's logger. It takes no lock.
func (c *catalog) domain(name string, partition int32) *domain {
	t, ok := c.known.Load(name)
	if !ok {
		return nil
	}
	domains := t.(*topic).domains
	if partition < 0 || int(partition) >= len(domains) {
		return nil
	}
	return domains[partition]
}
