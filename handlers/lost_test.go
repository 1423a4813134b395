package handlers_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mqferry/mqferry/handlers"
)

func TestNothingIsCommittedForALaneThatWasLost(t *testing.T) {
	r := newRoute(t)
	var s script
	_, in, messages := r.scripted(&s)
	lost, kept := in.Inlet("lost", nil), in.Inlet("kept", nil)
	lost.Offer(records(0, 3, 0)...)
	got := r.receive(messages, 3)
	got[0].Ack()
	eventually(t, func() bool { return s.position("lost") == 1 })
	lost.Close()
	require.Error(t, got[1].Context().Err(), "whoever works on it may stop")
	got[1].Ack()
	got[2].Ack()
	kept.Offer(records(0, 1, 0)...)
	r.receive(messages, 1)[0].Ack()
	eventually(t, func() bool { return s.position("kept") == 1 })
	require.Equal(t, 1, s.position("lost"))
	lost.Close()
}

func TestWhatWasSettledButNotCommittedWhenALaneWasLostStaysSo(t *testing.T) {
	r := newRoute(t)
	var works atomic.Bool
	s := script{commit: func([]handlers.Settled) error {
		if !works.Load() {
			return errors.New("not now")
		}
		return nil
	}}
	_, in, messages := r.scripted(&s)
	lost, kept := in.Inlet("lost", nil), in.Inlet("kept", nil)
	lost.Offer(records(0, 1, 0)...)
	r.receive(messages, 1)[0].Ack()
	eventually(t, func() bool { return r.source.Meter.CommitFails.Load() > 0 })
	kept.Offer(records(0, 1, 0)...)
	r.receive(messages, 1)[0].Ack()
	lost.Close()
	works.Store(true)
	eventually(t, func() bool { return s.position("kept") == 1 })
	require.Zero(t, s.position("lost"))
}

func TestCloseWaitsForACommitThatIsUnderWay(t *testing.T) {
	r := newRoute(t)
	reached, release := make(chan struct{}), make(chan struct{})
	s := script{commit: func([]handlers.Settled) error {
		close(reached)
		<-release
		return nil
	}}
	_, in, messages := r.scripted(&s)
	inlet := in.Inlet("0", nil)
	inlet.Offer(records(0, 1, 0)...)
	r.receive(messages, 1)[0].Ack()
	done(t, reached)
	closed := start(func() error { inlet.Close(); return nil })
	select {
	case <-closed:
		require.FailNow(t, "the lane was given away while a commit for it was under way")
	case <-patienceOf(50):
	}
	close(release)
	done(t, closed)
}
