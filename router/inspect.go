package router

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mqferry/mqferry/handlers"
)

// Inspection is what one route would find at its brokers.
type Inspection struct {
	Route       string
	Source      Finding
	Destination Finding
	Poison      *Finding // Nil where nothing is parked.
}

// Finding is what was found at one end of a route.
type Finding struct {
	End  string // datacenter/topic
	Text string // What is there, and what would be made; empty when the broker cannot tell.
	Err  error  // Why the route would not work, or could not be looked at.
}

// Inspect looks at what every route would find at its brokers: whether they can be reached with these credentials, what exists and what would
// be created. It consumes and creates nothing. ctx bounds it as a whole: a broker that does not answer in time is an error in the findings of its routes.
func (r *Router) Inspect(ctx context.Context) []Inspection {
	conns := r.look(ctx)
	defer func() {
		for _, c := range conns {
			// Nothing was sent that closing could lose.
			_ = c.Close()
		}
	}()
	all := make([]Inspection, len(r.routes))
	var done sync.WaitGroup
	for i, route := range r.routes {
		done.Go(func() { all[i] = route.inspect(ctx, conns[route.from], conns[route.to], conns[route.poison]) })
	}
	done.Wait()
	return all
}

// lookTimeout bounds the opening of a data center that is only looked at.
const lookTimeout = 5 * time.Second

// look opens every data center once; one that cannot be opened is stood in for.
func (r *Router) look(ctx context.Context) map[*site]handlers.Conn {
	conns := make(map[*site]handlers.Conn, len(r.sites))
	// So that a broker which does not answer leaves time to look at the others.
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var mu sync.Mutex
	var done sync.WaitGroup
	for _, s := range r.sites {
		done.Go(func() {
			conn, err := s.attempt(ctx)
			if err != nil {
				conn = closedDoor{err: err}
			}
			mu.Lock()
			defer mu.Unlock()
			conns[s] = conn
		})
	}
	done.Wait()
	return conns
}

func (r *route) inspect(ctx context.Context, from, to, poison handlers.Conn) Inspection {
	source, destination := r.ends(from)
	found := Inspection{
		Route:       r.plan.Name,
		Source:      Finding{End: r.plan.From.String()},
		Destination: Finding{End: r.plan.To.String()},
	}
	found.Source.Text, found.Source.Err = from.InspectSource(ctx, source, r.plan.source)
	found.Destination.Text, found.Destination.Err = to.InspectDestination(ctx, destination, r.plan.destination)
	if poison != nil {
		p := Finding{End: r.plan.poison.String()}
		p.Text, p.Err = poison.InspectDestination(ctx, r.poisonQueue(), r.plan.poison.options)
		found.Poison = &p
	}
	return found
}

// closedDoor stands for a data center that could not be opened: whatever is looked for there, the answer is why.
type closedDoor struct {
	handlers.Conn // Nil: nobody runs a route through a closed door.

	err error
}

func (c closedDoor) InspectSource(context.Context, handlers.Source, handlers.Options) (string, error) {
	return "", c.err
}

func (c closedDoor) InspectDestination(context.Context, handlers.Destination, handlers.Options) (string, error) {
	return "", c.err
}

func (c closedDoor) Unwrap() any  { return nil }
func (c closedDoor) Close() error { return nil }

// Err gives what stands in the route's way, nil when nothing does.
func (i Inspection) Err() error {
	err := errors.Join(i.Source.Err, i.Destination.Err)
	if i.Poison != nil {
		err = errors.Join(err, i.Poison.Err)
	}
	return err
}
