package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqferry/mqferry/handlers"
)

// search finds the records at fault among those that came back together. The suspects are sent again in their order, group by group, while
// nothing else enters the partition. A group that fails is halved, one that passes lets the next be twice as large: so a culprit among
// thousands is alone after some dozen round trips, and the rest pass in as many. Who fails alone is guilty.
//
// When nobody is guilty of being too large, the batches were, and the topic's batches are smaller from then on.
type search struct {
	suspects []*shipment
	group    int  // How many are sent together next.
	asking   bool // The topic's limits are being read again.
	asked    bool
	guilty   int
	tooLarge int // The bytes of the smallest group that was too large; 0 if none was.
	sent     int // Groups sent so far.
	cuts     int // Connections broken for want of an answer.
}

// impatience is how long an answer to a group is waited for at first, before the connection is broken.
const impatience = 2 * time.Second

// back takes the returned ones among the suspects again, before those that were not sent yet.
func (s *search) back(returned []returned) {
	if len(returned) == 0 {
		return
	}
	suspects := make([]*shipment, 0, len(returned)+len(s.suspects))
	for _, r := range returned {
		suspects = append(suspects, r.shipment)
	}
	s.suspects = append(suspects, s.suspects...)
}

// narrow follows a group that failed.
func (s *search) narrow(d *domain, back []returned, cause error, out *outbox) {
	if len(back) == 1 {
		s.guilty++
		s.group = 1
		out.add(back[0].shipment, d.verdict(back[0].shipment, cause))
		d.recallBehind(back[0].shipment, out)
		return
	}
	s.back(back)
	failed, bytes := 0, 0
	for _, r := range back {
		if !isRecalled(r.err) {
			failed++
			bytes += r.size
		}
	}
	s.group = max(failed/2, 1)
	if !isTooLarge(cause) {
		return
	}
	if s.tooLarge == 0 || bytes < s.tooLarge {
		s.tooLarge = bytes
	}
	if !s.asked {
		s.asked, s.asking = true, true
		d.publisher.background.Go(d.ask)
	}
}

// next sends the next group, and reports false when there is none: the search is over.
func (s *search) next(d *domain) bool {
	if len(s.suspects) == 0 {
		if s.tooLarge > 0 && s.guilty == 0 {
			d.publisher.catalog.lower(d.topic, s.tooLarge/2)
		}
		*s = search{}
		return d.publisher.replacing
	}
	n := min(max(s.group, 1), len(s.suspects))
	group := s.suspects[:n]
	s.suspects = s.suspects[n:]
	s.sent++
	for _, suspect := range group {
		d.ship(suspect)
	}
	d.expect(s.sent)
	return true
}

// expect breaks the connections when nothing comes back of the group, and waits longer each time. A batch that fails while the next one is about to be
// written leaves the client a request without records to send; Kafka never answers that, nothing passes it, and the client would wait for 20 s.
func (d *domain) expect(group int) {
	p := d.publisher
	time.AfterFunc(impatience<<min(d.search.cuts, 4), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.search.sent != group || d.flying == 0 || p.closed {
			return
		}
		d.search.cuts++
		p.hooks.cut()
		d.expect(group)
	})
}

// ask reads the topic's limits again, since they were probably changed: what is over them is guilty without being sent, and if
// the batches were larger than they allow, that alone may have been the fault.
func (d *domain) ask() {
	p := d.publisher
	lowered := p.catalog.refresh(d.topic)
	var out outbox
	p.mu.Lock()
	s := &d.search
	s.asking = false
	if lowered {
		s.convict(d, &out)
		s.group, s.tooLarge = len(s.suspects), 0
		p.replace()
	}
	d.advance(&out)
	p.mu.Unlock()
	out.send()
}

// convict finds the suspects that are over the topic's limit.
func (s *search) convict(d *domain, out *outbox) {
	kept := make([]*shipment, 0, len(s.suspects))
	var guilty []*shipment
	for _, suspect := range s.suspects {
		if err := d.topic.tooLarge(suspect); err != nil {
			s.guilty++
			out.add(suspect, err)
			guilty = append(guilty, suspect)
			continue
		}
		kept = append(kept, suspect)
	}
	s.suspects = kept
	for _, g := range guilty {
		d.recallBehind(g, out)
	}
}

// recallBehind gives back to its lane what came after a guilty record and is not on the wire: nothing of a lane is sent above a refused
// message before that is settled.
func (d *domain) recallBehind(guilty *shipment, out *outbox) {
	keep := func(all []*shipment) []*shipment {
		kept := make([]*shipment, 0, len(all))
		for _, s := range all {
			if s.number > guilty.number && s.turn.SharesLane(guilty.turn) {
				out.add(s, handlers.ErrTurnLost)
				continue
			}
			kept = append(kept, s)
		}
		return kept
	}
	d.search.suspects, d.waiting = keep(d.search.suspects), keep(d.waiting)
}

// verdict is the error of a record that failed alone.
func (d *domain) verdict(s *shipment, cause error) error {
	if err := d.topic.tooLarge(s); err != nil {
		return err
	}
	err := fmt.Errorf("a record of %d bytes alone: %w", s.size, cause)
	if isTooLarge(cause) || errors.Is(cause, kerr.InvalidRecord) || errors.Is(cause, kerr.InvalidTimestamp) {
		return handlers.Permanent(err)
	}
	return handlers.Refused(err)
}

// recaller is the client's logger. The client tells of a failed batch in its log before it lets anything else into the partition, and calls
// the batch's records back only later: what is sent in between must not overtake them.
type recaller struct{ catalog *catalog }

// Level asks for what the client says about failures.
func (recaller) Level() kgo.LogLevel { return kgo.LogLevelInfo }

// Log recalls what the client has not sent to a partition in which a batch failed. It writes nothing.
func (r recaller) Log(_ kgo.LogLevel, _ string, pairs ...any) {
	var topic string
	var partition int32 = -1
	var failed bool
	for i := 0; i+1 < len(pairs); i += 2 {
		switch value := pairs[i+1].(type) {
		case string:
			if pairs[i] == "topic" {
				topic = value
			}
		case int32:
			if pairs[i] == "partition" {
				partition = value
			}
		case error:
			failed = failed || isBatchError(value)
		}
	}
	if !failed {
		return
	}
	if d := r.catalog.domain(topic, partition); d != nil {
		if cancel := d.recall.Load(); cancel != nil {
			(*cancel)()
		}
	}
}
