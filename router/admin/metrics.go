package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/router"
)

// newMetrics makes the page with the counters of r and of the process, in a registry of its own: an embedding program may have two routers.
func newMetrics(r *router.Router) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(r.Status),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads the routes' status when it is asked, so that counting costs nothing in between.
type collector struct {
	status   func() []router.Status
	counters []counter
	inFlight *prometheus.Desc
	up       *prometheus.Desc
	ready    *prometheus.Desc
	ended    *prometheus.Desc
	took     *prometheus.Desc
}

// counter is one number of a route's meter, and what it is called.
type counter struct {
	desc *prometheus.Desc
	read func(*handlers.Meter) int64
}

func newCollector(status func() []router.Status) *collector {
	return &collector{
		status:   status,
		counters: counters(),
		inFlight: describe("in_flight", "Messages fetched and not yet acked at the source."),
		up:       describe("route_up", "Whether the route's broker answers, at each end: source, destination and poison.", "end"),
		ended:    describe("messages_total", "Messages that came to their end, by outcome: forwarded, parked, filtered, looped, duplicate.", "outcome"),
		took:     describe("message_seconds_total", "How long those messages took in all, from their emission on.", "outcome"),
		ready:    describe("route_ready", "Whether the route is connected at both ends and progressing."),
	}
}

func counters() []counter {
	count := func(name, help string, read func(*handlers.Meter) int64) counter {
		return counter{desc: describe(name+"_total", help), read: read}
	}
	return []counter{
		count("messages_fetched", "Messages read from the source, redeliveries included.", func(m *handlers.Meter) int64 { return m.Fetched.Load() }),
		count("messages_confirmed", "Messages that the destination confirmed.", func(m *handlers.Meter) int64 { return m.Confirmed.Load() }),
		count("messages_committed", "Messages acked at the source.", func(m *handlers.Meter) int64 { return m.Committed.Load() }),
		count("messages_dropped", "Messages dropped on purpose, or gone at the source before they could be read.", func(m *handlers.Meter) int64 { return m.Dropped.Load() }),
		count("messages_nacked", "Messages whose chain failed, and that were emitted again.", func(m *handlers.Meter) int64 { return m.Nacked.Load() }),
		count("attempts_failed", "Attempts to deliver that failed on the way.", func(m *handlers.Meter) int64 { return m.Failed.Load() }),
		count("attempts_refused", "Attempts to deliver that the destination refused.", func(m *handlers.Meter) int64 { return m.Refused.Load() }),
		count("reconnects", "Connections made again, at either end.", func(m *handlers.Meter) int64 { return m.Reconnects.Load() }),
		count("restarts", "Times the route was started again after it ended by itself.", func(m *handlers.Meter) int64 { return m.Restarts.Load() }),
		count("recreated", "Groups and topics found missing while running, and made again or looked up anew.", func(m *handlers.Meter) int64 { return m.Recreated.Load() }),
		count("messages_without_id", "Messages that could not be told from copies, since they have no id.", func(m *handlers.Meter) int64 { return m.NoID.Load() }),
		count("commit_failures", "Acks to the source that had to be repeated.", func(m *handlers.Meter) int64 { return m.CommitFails.Load() }),
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mqferry_"+name, help, append([]string{"route"}, labels...), nil)
}

// Describe sends what Collect may send.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, counter := range c.counters {
		to <- counter.desc
	}
	to <- c.inFlight
	to <- c.up
	to <- c.ready
	to <- c.ended
	to <- c.took
}

// Collect sends the numbers of every route as they are now.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range c.status() {
		for _, counter := range c.counters {
			to <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.read(s.Meter)), s.Route)
		}
		gauge(c.inFlight, float64(s.InFlight()), s.Route)
		gauge(c.up, one(s.Source.Up), s.Route, "source")
		gauge(c.up, one(s.Destination.Up), s.Route, "destination")
		if s.PoisonQueue != "" {
			gauge(c.up, one(s.Poison.Up), s.Route, "poison")
		}
		gauge(c.ready, one(s.Trouble() == ""), s.Route)
		for _, e := range handlers.Endings() {
			n, took := s.Meter.Ended(e)
			to <- prometheus.MustNewConstMetric(c.ended, prometheus.CounterValue, float64(n), s.Route, e.String())
			to <- prometheus.MustNewConstMetric(c.took, prometheus.CounterValue, took.Seconds(), s.Route, e.String())
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
