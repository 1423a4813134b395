package middleware_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/mqferry/mqferry/config"
	"github.com/mqferry/mqferry/handlers/memory"
	"github.com/mqferry/mqferry/handlers/record"
	"github.com/mqferry/mqferry/middleware"
	"github.com/mqferry/mqferry/router"
)

// tenant is what users may write in a route's list: "middleware: [{tenant: {name: blue}}]".
type tenant struct {
	Name string `yaml:"name"`
	Only bool   `yaml:"only"` // Messages of other tenants are not delivered.
}

func defaultTenant() tenant { return tenant{Name: "nobody", Only: true} }

// Validate is called when the options are read. The error tells the file, the line and the key.
func (t tenant) Validate() error {
	if t.Name == "" {
		return config.Invalid("name", "is empty; write the name of a tenant")
	}
	return nil
}

// newTenant makes the middleware of one route, with that route's options. Settings tell the route's name and log, and take what is to be closed with it.
func newTenant(t tenant, _ middleware.Settings) (message.HandlerMiddleware, error) {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			switch owner := msg.Metadata.Get("tenant"); {
			case owner == "":
				msg.Metadata.Set("tenant", t.Name)
			case owner != t.Name && t.Only:
				return nil, middleware.Drop("it belongs to another tenant") // Acked at its source, and counted.
			}
			return next(msg)
		}
	}, nil
}

// A middleware of one's own, with options in the config file. A program has it as an option of command.Run or router.New; here both data centers are
// in memory.
func Example() {
	store := memory.New()
	options := []router.Option{
		router.WithMiddleware("tenant", middleware.New(defaultTenant, newTenant)),
		router.WithBroker("store", store.Broker()),
	}
	cfg, err := router.Parse("mqferry.yml", []byte(`
datacenters: {shanghai: {store: {}}, frankfurt: {store: {}}}
routes:
  - {name: orders, from: shanghai/orders, to: frankfurt/orders, middleware: [{tenant: {name: blue}}]}
`), options...)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := router.New(cfg, options...)
	if err != nil {
		fmt.Println(err)
		return
	}

	store.Site("shanghai").Produce("orders", 0,
		&record.Record{Value: []byte("one")},
		&record.Record{Value: []byte("two"), Headers: []record.Header{{Key: "tenant", Value: []byte("red")}}},
		&record.Record{Value: []byte("three"), Headers: []record.Header{{Key: "tenant", Value: []byte("blue")}}},
	)

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error)
	go func() { stopped <- r.Run(running) }()
	// All three are acked at the source: two were confirmed by the destination, one was dropped.
	err = store.Site("shanghai").Await(ctx, func() bool { return store.Site("shanghai").Committed("orders", "mqferry-orders", 0) == 3 })
	stop()
	fmt.Println(err, <-stopped)

	for _, arrived := range store.Site("frankfurt").Messages("orders") {
		for _, h := range arrived.Headers {
			fmt.Printf("%s: %s is %s\n", arrived.Value, h.Key, h.Value)
		}
	}
	fmt.Println(r.Status()[0].Meter.Dropped.Load(), "dropped")
	// Output:
	// <nil> <nil>
	// one: tenant is blue
	// three: tenant is blue
	// 1 dropped
}
