// Package memory is a broker inside the process: for tests, examples and the benchmark. It keeps what other brokers keep,
// topics with lanes and positions of groups, and fails only when it is told to.
//
// A [Store] holds sites, one for each data center, and outlives the routers that connect to it:
//
//	store := memory.New()
//	store.Site("shanghai").Produce("orders", 0, &record.Record{Value: []byte("42")})
//	r, err := router.New(cfg, router.WithBroker("memory", store.Broker()))
//
// A [Site] answers publishes in order from a goroutine of each publisher, so pipelining is real, and takes orders for faults: see
// [Site.FailNext], [Site.OnPublish], [Site.Down], [Site.FailCommits], [Site.LoseLane].
package memory
