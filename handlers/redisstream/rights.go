package redisstream

import (
	"strings"

	"github.com/mqferry/mqferry/handlers"
)

// What the ends need of an ACL, and what more an inspection does.
const (
	sourceRights      = "+xgroup|create +xreadgroup +xack +xpending +xclaim +exists +eval +time +hget +hmget +hset +pexpire"
	stockRights       = "+xgroup|create +xreadgroup +xack +xpending +xclaim +xinfo|consumers +xgroup|delconsumer"
	destinationRights = "+xadd"
	inspectionRights  = "+xlen +exists +xinfo|groups"
)

// permitSource adds to a NOPERM what the source's end needs.
func (c *connection) permitSource(s handlers.Source, err error) error {
	if c.config.Client == Watermill {
		return c.current().permit(err, "~"+s.Topic, stockRights)
	}
	return c.current().permit(err, "~"+s.Topic+" ~"+leaseKey(s), sourceRights)
}

// permitDestination adds to a NOPERM what the destination's end needs.
func (c *connection) permitDestination(stream string, o DestinationConfig, err error) error {
	rights := destinationRights
	for _, q := range questionsOf(o) {
		rights += " +" + strings.ToLower(q.command)
	}
	return c.current().permit(err, "~"+stream, rights)
}
