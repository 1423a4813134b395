package command

import (
	"fmt"
	"strings"
)

const about = `mqferry carries messages between the message queues of different data centers.

It fetches each message from one broker, delivers it to another, and acks it only when the
other has confirmed it. Nothing is lost, and each lane keeps its order.
`

const example = `
A configuration names the data centers and the routes between them:

  datacenters:
    shanghai:  {kafka: {brokers: ["127.0.0.1:9092"]}}
    frankfurt: {redis: {address: "127.0.0.1:6379"}}
  routes:
    - {name: orders, from: shanghai/orders, to: frankfurt/orders}

Write that to mqferry.yml, then:

  mqferry validate -c mqferry.yml
  mqferry run -c mqferry.yml

"mqferry help COMMAND" tells more about one command.
`

const runHelp = `Usage: mqferry run -c FILE [-c FILE ...] [options]

Carries messages as the configuration says, until it gets SIGINT or SIGTERM. It then stops
fetching, waits until all that is in flight is delivered and acked, and ends with code 0.
A second signal ends it at once; the source then delivers again what was in flight.

A broker that is down is waited for, at the start too, while other routes run.

Options:
  -c FILE             the configuration: a file, or a folder of *.yml and *.yaml files;
                      may be given several times
  --instance NAME     the name of this process among those that share its consumer groups;
                      keep it over restarts (default: the name of the host)
  --log-level LEVEL   debug, info, warn or error (default: info)
  --log-format FORM   text, json, or auto: text on a terminal, otherwise JSON (default: auto)

Log lines go to standard error: a line per route every 10 seconds while there is something
to tell, none per message. With "admin: {listen: HOST:PORT}" in the configuration,
/healthz, /readyz and /metrics are served there.

Examples:
  mqferry run -c mqferry.yml
  mqferry run -c /etc/mqferry --instance ferry-1 --log-format json
`

const validateHelp = `Usage: mqferry validate -c FILE [-c FILE ...] [--connect]
       mqferry validate --schema

Checks the configuration, and starts nothing. It prints every mistake with its file, its
line and what would be right, and then ends with code 2; or it prints the routes.

Options:
  -c FILE      the configuration: a file, or a folder of *.yml and *.yaml files; may be
               given several times
  --connect    also ask the brokers: whether they can be reached with these credentials,
               what exists there, and what would be created. Nothing is consumed or created.
               A route that would not work makes it end with code 1.
  --schema     print the JSON Schema of a configuration, for editors, and nothing else

Examples:
  mqferry validate -c mqferry.yml
  mqferry validate -c /etc/mqferry --connect
  mqferry validate --schema > mqferry.schema.json
`

const poisonHelp = `Usage: mqferry poison list|show|replay|discard ROUTE -c FILE [-c FILE ...] [options]

Works on the poison queue of a route: where the messages are that could not be delivered,
with the reason. It goes directly to the brokers, whether the route runs or not, and touches
only what this route has parked.

  list      one line for each message; nothing is consumed
  show      everything about each message: headers and payload as JSON, text or hex
  replay    send messages through the route again, in the order of the queue; those that the
            destination has confirmed leave the queue, those that fail again, or that the
            route's middleware drops, stay. Interrupted, it loses nothing, and can be called again.
  discard   take messages out for good; needs --match, --limit or --all

Options:
  -c FILE        the configuration, as for "mqferry run"
  --match EXPR   only messages for which a CEL expression is true; it knows id, key, payload,
                 headers, size, class, reason, attempts, first and last
  --limit N      only the first N of them
  --all          with discard: yes, all of them
  --dry-run      with replay and discard: only say how many it would be
  --json         write JSON: with list and show a line for each message

It ends with code 1 when a message failed again or a broker could not be reached.

Examples:
  mqferry poison list orders -c mqferry.yml
  mqferry poison show orders -c mqferry.yml --limit 1
  mqferry poison replay orders -c mqferry.yml --match 'reason.contains("too large")'
  mqferry poison discard orders -c mqferry.yml --match 'headers["country"] == "xx" && attempts > 3'
`

const demoHelp = `Usage: mqferry demo [options]

Starts two data centers in this process, on real ports: Kafka in "shanghai", and Redis in
"frankfurt" behind a slow link. It produces orders in the one, consumes them in the other,
carries them between the two, stops the link dead for a moment, and counts what arrived.

Options:
  --for TIME     how long to produce; 0 means until Ctrl-C (default: 10s)
  --rate N       how many orders per second (default: 2000)
  --admin ADDR   where to serve /healthz, /readyz and /metrics
                 (default: 127.0.0.1:0, which is any free port)

It ends with code 0 when every order arrived exactly once and in its order, otherwise 1.

Examples:
  mqferry demo
  mqferry demo --for 0 --rate 10000 --admin 127.0.0.1:8080
`

const versionHelp = `Usage: mqferry version

Says which version this is, and what it was built from and with.
`

// help prints what mqferry is, or how one command is called.
func (p program) help(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(p.out, about, "\nCommands:\n")
		for _, c := range commands() {
			fmt.Fprintf(p.out, "  %-10s %s\n", c.name, c.about)
		}
		fmt.Fprint(p.out, example)
		return good
	}
	c, err := find(args[0])
	if err != nil {
		return p.misused(err, "mqferry help")
	}
	fmt.Fprint(p.out, c.help)
	return good
}

// find gives the command of that name.
func find(name string) (command, error) {
	var names []string
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	return command{}, fmt.Errorf("has no command %q; there are %s and help", name, strings.Join(names, ", "))
}
