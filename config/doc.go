// Package config reads what a user may write: the configuration file of mqferry.
//
// # The file
//
// This is a whole file; everything else has a default:
//
//	datacenters:
//	  shanghai:
//	    kafka: {brokers: ["127.0.0.1:9092"]}
//	  virginia:
//	    redis: {address: "127.0.0.1:6379"}
//
//	routes:
//	  - name: orders
//	    from: shanghai/orders
//	    to: virginia/orders
//
// A data center has a name and exactly one broker. What stands below the broker's name is for that broker: its options are in the README
// of its folder. A route has a name and two ends.
//
// # Keys
//
//	datacenters.NAME.BROKER      the options of the broker: kafka, redis or memory
//	routes[].name                letters, digits, '.', '_', '-'; the identity of the route at its source
//	routes[].from                datacenter/topic, or {datacenter, topic, group, start, and options of the broker}
//	routes[].from.group          where the source broker keeps the position; mqferry-NAME
//	routes[].from.start          where to begin without a position: earliest (default), latest, or a time (RFC 3339)
//	routes[].to                  datacenter/topic, or {datacenter, topic, and options of the broker}
//	routes[].window              messages of one lane in flight, 1 to 1000000; 8192
//	routes[].window_bytes        bytes of the route in flight, at least 64KiB; 64MiB
//	routes[].order               lane (default), or strict: one message of a lane on the wire
//	defaults                     keys of routes but name, from and to, for all routes that do not have them
//	admin.listen                 host:port for health and metrics; nothing is served without it
//	memory                       bytes in flight of all routes together, at least 1MiB; 512MiB
//	shutdown_timeout             how long a stop waits for what is in flight; 20s
//
// The short form of an end is split at its first "/", and a topic in it has no '*', '?' or '{', which are kept for patterns. The topic of
// the long form is literal. "to" may be a list of one.
//
// Durations have a unit ("500ms", "20s", "1h30m"). Sizes are bytes or have one: kB, MB, GB are powers of 1000 and KiB, MiB, GiB of 1024.
// YAML's anchors, aliases and merge keys ("<<") work.
//
// # Values from outside
//
// In every value, but in no key:
//
//	${NAME}            the environment variable, which must be set
//	${NAME:-default}   the same, or the default where the variable is not set or empty
//	${file:path}       what is in the file, without the line ends behind it; the path is relative to the configuration's folder
//	$$                 a dollar sign; a single one that no "{" follows is itself too
//
// They are replaced after the YAML was read, so nothing in such a value changes the structure of the file, and no error shows such a
// value: it shows the expression.
//
// # Several files
//
// Load takes files and folders. Data centers and routes of all files are put together; their names, and each of the other sections, may be
// there once.
//
// # Mistakes
//
// A configuration is good or it is not used. All its mistakes are reported at once, sorted, as in
//
//	mqferry.yml:14: routes[2].to: data center "frankfrut" is not defined; did you mean "frankfurt"? (have: frankfurt, shanghai)
//
// Keys that nothing knows are mistakes. That holds for the options of brokers too, which are decoded by the broker: see Raw.Decode, and WithCheck for
// how their mistakes join the rest.
package config
