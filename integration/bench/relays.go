package main

import "strings"

// relays are all that are measured between two kinds of brokers.
func (b *bench) relays(from, to *station) []relay {
	all := []relay{b.ferry("mqferry", "")}
	if from != to {
		return all
	}
	// What Watermill's own packages do, in the same program.
	stock := b.ferry("mqferry, client: watermill", ", client: watermill")
	switch from.name {
	case "Kafka":
		larger := "far.producer.batch.size = 1000000\nfar.producer.linger.ms = 20\n"
		all = append(all, b.mirrorMaker("MirrorMaker 2, defaults", ""), b.mirrorMaker("MirrorMaker 2, batch 1 MB, linger 20 ms", larger))
	case "RabbitMQ":
		all = append(all, b.shovel("Shovel, on-confirm, prefetch 1,000", 1000), b.shovel("Shovel, on-confirm, prefetch 10,000", 10_000), b.rabbitmqPump())
	case "Redis":
		all = append(all, b.redisPump())
	}
	return append(all, stock)
}

// ferry runs mqferry with one route and the default options but for those given.
func (b *bench) ferry(name, options string) relay {
	return relay{name: name, start: func(c crossing) (*moving, error) {
		site := func(text string) string { return strings.TrimSuffix(text, "}") + options + "}" }
		from, to := c.from.site(c.from.near, c.from.near.Address()), c.to.site(c.to.far, c.to.link.Address())
		text := strings.Join([]string{
			"datacenters:", "  a: {" + site(from) + "}", "  b: {" + site(to) + "}",
			"routes:", "  - {name: " + c.run + ", from: a/" + c.topic + ", to: b/" + c.run + "}", "",
		}, "\n")
		return b.workshop.run(c.run, text, b.workshop.file("mqferry"), "run", "-c", b.workshop.file(c.run))
	}}
}
