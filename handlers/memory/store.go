package memory

import (
	"context"
	"sync"

	"github.com/mqferry/mqferry/handlers"
)

// Store holds the sites of a world, by name. Make it with New; it is safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	sites map[string]*Site
}

// New makes a store without sites.
func New() *Store {
	return &Store{sites: map[string]*Site{}}
}

// Broker gives the broker whose data centers are the sites of the store.
func (s *Store) Broker() handlers.Broker {
	return handlers.NewBroker(DefaultConfig, s.Open)
}

// Open connects to a site of the store. It fails while the site is down.
func (s *Store) Open(_ context.Context, c Config, settings handlers.Settings) (handlers.Connection[SourceConfig, DestinationConfig], error) {
	name := c.Name
	if name == "" {
		name = settings.DataCenter
	}
	site := s.Site(name)
	if err := site.reachable(); err != nil {
		return nil, err
	}
	return &connection{site: site}, nil
}

// Site gives the site of that name, which is made by the first call.
func (s *Store) Site(name string) *Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	site, ok := s.sites[name]
	if !ok {
		site = newSite(name)
		s.sites[name] = site
	}
	return site
}
