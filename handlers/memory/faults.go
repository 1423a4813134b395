package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

var (
	errDown   = errors.New("the site is down")
	errBroken = errors.New("the connection broke: nobody knows whether the message arrived")
)

// Verdict is what a site does with one message that is published to it. The zero Verdict confirms it.
type Verdict struct {
	gate     <-chan struct{}
	unstored bool
	err      error
	breaks   bool // The connection, and with it what was sent after this message.
}

// Confirm keeps the message and says so.
func Confirm() Verdict { return Verdict{} }

// Refuse says no to the message alone; err is to have a class, see handlers.Refused and its like.
func Refuse(err error) Verdict { return Verdict{err: err, unstored: true} }

// Lose breaks the connection instead of an answer: everything sent and not answered fails as unavailable. The
// message was kept nevertheless if stored is true; nothing after it was.
func Lose(stored bool) Verdict {
	return Verdict{err: handlers.Unavailable(errBroken), unstored: !stored, breaks: true}
}

// Delay confirms the message once gate is closed. Whatever was published after it waits behind it.
func Delay(gate <-chan struct{}) Verdict { return Verdict{gate: gate} }

// faults are what was ordered, guarded by the site's mutex.
type faults struct {
	down     bool
	fails    int
	fail     error
	commits  int
	commit   error
	judge    func(topic string, r *record.Record, attempt int) Verdict
	attempts map[string]int
}

// FailNext makes the next n publishes fail, with nothing kept. An err of a class that concerns the message refuses it; any other breaks
// the connection, as Lose does, and a nil err is that of Lose.
func (s *Site) FailNext(n int, err error) {
	if err == nil {
		err = handlers.Unavailable(errBroken)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.fails, s.faults.fail = n, err
}

// OnPublish lets judge decide about each message as it arrives, in order; nil ends that. Attempt counts from 1, by the
// message's id. Judge may use the site, and is called by several goroutines at once when there are several publishers.
func (s *Site) OnPublish(judge func(topic string, r *record.Record, attempt int) Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.judge, s.faults.attempts = judge, map[string]int{}
}

// FailCommits makes the next n commits of any group fail with err; a nil err stands for a broken connection.
func (s *Site) FailCommits(n int, err error) {
	if err == nil {
		err = handlers.Unavailable(errBroken)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.commits, s.faults.commit = n, err
}

// Down makes the site unreachable: nothing can be opened, read, published or committed until Up.
func (s *Site) Down() { s.setDown(true) }

// Up ends Down.
func (s *Site) Up() { s.setDown(false) }

// LoseLane takes a lane away from whoever reads it for a group, at once, as a rebalance does that nobody waits for. The lane is free
// then, and whoever subscribes for the group opens it again at its position. It does nothing when nobody reads the lane.
func (s *Site) LoseLane(topic, group string, lane int) {
	if owner := s.owner(topic, group, lane); owner != nil {
		owner.lose(lane)
	}
}

// RevokeLane is LoseLane that lets what was sent settle first, until ctx ends.
func (s *Site) RevokeLane(ctx context.Context, topic, group string, lane int) error {
	owner := s.owner(topic, group, lane)
	if owner == nil {
		return nil
	}
	return owner.revoke(ctx, lane)
}

func (s *Site) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.down = down
	for _, t := range s.topics {
		s.change(t)
	}
}

func (s *Site) reachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.downError()
}

func (s *Site) downError() error {
	if s.faults.down {
		return handlers.Unavailable(fmt.Errorf("reach site %s: %w", s.name, errDown))
	}
	return nil
}

// verdict decides about a message that has arrived.
func (s *Site) verdict(topic string, r *record.Record) Verdict {
	s.mu.Lock()
	if err := s.downError(); err != nil {
		s.mu.Unlock()
		return Verdict{err: err, unstored: true, breaks: true}
	}
	if s.faults.fails > 0 {
		s.faults.fails--
		err := s.faults.fail
		s.mu.Unlock()
		return Verdict{err: err, unstored: true, breaks: !concernsMessage(err)}
	}
	judge := s.faults.judge
	if judge == nil {
		s.mu.Unlock()
		return Verdict{}
	}
	s.faults.attempts[r.ID]++
	attempt := s.faults.attempts[r.ID]
	s.mu.Unlock()
	return judge(topic, r, attempt)
}

// commitError is the fault that the next commit is to have. The site's mutex is held.
func (s *Site) commitError() error {
	if s.faults.commits > 0 {
		s.faults.commits--
		return s.faults.commit
	}
	return s.downError()
}

func concernsMessage(err error) bool {
	switch handlers.ClassOf(err) {
	case handlers.ClassRefused, handlers.ClassFull, handlers.ClassUnroutable, handlers.ClassPermanent:
		return true
	default:
		return false
	}
}
