package config

import "time"

// What a configuration says when it does not say anything.
const (
	DefaultMemory          Size     = 512 << 20
	DefaultShutdownTimeout Duration = Duration(20 * time.Second)
	DefaultWindow          int      = 8192
	DefaultWindowBytes     Size     = 64 << 20
)

// The limits of what a configuration may ask for.
const (
	MaxWindow      int  = 1_000_000
	MinWindowBytes Size = 64 << 10
	MinMemory      Size = 1 << 20
)

// Config is a whole configuration: merged from its files, completed with the defaults, and validated. It is not changed
// after it was loaded, so it may be read by several goroutines.
type Config struct {
	// DataCenters are in the order of the files; no name is there twice.
	DataCenters []DataCenter
	// Routes are in the order of the files, with what defaults: says already in them; no name is there twice.
	Routes []Route
	// Admin is where health and metrics are served; nowhere by default.
	Admin Admin
	// Memory is the budget of the whole process for messages in flight, in bytes; 512MiB by default.
	Memory Size
	// ShutdownTimeout is how long a stop waits for what is in flight; 20s by default.
	ShutdownTimeout Duration
	// Sources are the names of the files that the configuration was read from, in the order of reading.
	Sources []string
}

// DataCenter is a named site with one broker.
type DataCenter struct {
	// Name is what the routes call it.
	Name string
	// Broker is the kind of its broker, for example "kafka".
	Broker string
	// Options is what stands below the broker's name, for that broker to decode. It has a position even where it is empty.
	Options Raw
}

// Route carries the messages of one topic to another.
type Route struct {
	// Name is the identity of the route, also at its source: see Source.Group.
	Name string
	// From is where its messages are fetched.
	From Source
	// To is where they are delivered.
	To Destination
	// Window is how many messages of one lane may be in flight; 8192 by default.
	Window int
	// WindowBytes is how many bytes of the whole route may be in flight; 64MiB by default.
	WindowBytes Size
	// Order says how much order is paid for; OrderLane by default.
	Order Order
	// Options has the keys that WithRouteKeys names, for others to decode: those of the route and, where it has none, of the defaults.
	Options Raw
	// Raw is the node of the route, for errors with a position: r.Raw.At("to").Errorf("...").
	Raw Raw
}

// Source is the end of a route that messages are fetched from.
type Source struct {
	// DataCenter is the name of one of Config.DataCenters.
	DataCenter string
	// Topic is literal. It is empty when the file has none, and the broker's options are to name the place.
	Topic string
	// Group is the name under which the source broker keeps the position; "mqferry-<route>" by default.
	Group string
	// Start is where to begin when the broker has no position of the group; the zero value is the earliest message.
	Start Start
	// Options is all else that the long form says, for the broker to decode. It has a position even where it is empty.
	Options Raw
}

// String names the end as the short form does: datacenter/topic.
func (s Source) String() string { return s.DataCenter + "/" + s.Topic }

// Destination is the end of a route that messages are delivered to.
type Destination struct {
	// DataCenter is the name of one of Config.DataCenters.
	DataCenter string
	// Topic may have placeholders. It is empty when the file has none, and the broker's options are to name the place.
	Topic string
	// Options is all else that the long form says, for the broker to decode. It has a position even where it is empty.
	Options Raw
}

// String names the end as the short form does: datacenter/topic.
func (d Destination) String() string { return d.DataCenter + "/" + d.Topic }

// Admin is the HTTP server for health and metrics.
type Admin struct {
	// Listen is its address as host:port; nothing is served when it is empty, which is the default.
	Listen string `yaml:"listen"`
	// TLS serves HTTPS; plain HTTP when it is nil, which is the default.
	TLS *TLS `yaml:"tls"`
}

// Validate reports an address that is not host:port, and TLS without a certificate.
func (a Admin) Validate() error {
	if a.TLS != nil && a.TLS.Cert == "" {
		return Invalid("tls.cert", "is missing; a listener needs cert and key")
	}
	if a.Listen == "" {
		return nil
	}
	return CheckAddress("listen", a.Listen, "127.0.0.1:8080")
}
