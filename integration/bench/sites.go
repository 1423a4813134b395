package main

import (
	"github.com/mqferry/mqferry/integration/brokers"
	"github.com/mqferry/mqferry/integration/link"
)

// sites are two brokers of a kind with a link in front of the second, and a workshop for the relays between them.
type sites struct {
	a, b     *brokers.Broker
	far      *link.Link
	workshop *workshop
}

func openSites(start func() (*brokers.Broker, error)) (_ *sites, err error) {
	s := &sites{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.a, err = start(); err != nil {
		return nil, err
	}
	if s.b, err = start(); err != nil {
		return nil, err
	}
	if s.far, err = s.b.NewLink(); err != nil {
		return nil, err
	}
	if s.workshop, err = newWorkshop(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sites) close() {
	if s.workshop != nil {
		s.workshop.remove()
	}
	if s.far != nil {
		s.far.Close()
	}
	for _, b := range []*brokers.Broker{s.a, s.b} {
		if b != nil {
			b.Remove()
		}
	}
}
