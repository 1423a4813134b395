package redisstream

import (
	"fmt"
	"strings"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/mqferry/mqferry/handlers"
)

// classify gives the server's no to an XADD its class. The protocol's first word is the code; "ERR" is the code for all the rest. A code
// that is not known here may come from a proxy in front of a server that is down, so it is nobody's fault. Some proxies say "ERR" then too: it is
// the message's fault only when that was judged alone. Err is the reply with what there is to say about it.
func classify(stream string, reply redigo.Error, err error, alone bool) error {
	err = fmt.Errorf("add to stream %s: %w", stream, err)
	switch code(reply) {
	case "OOM", "NOREPLICAS", "MISCONF":
		return handlers.Full(err)
	case "WRONGTYPE", "NOPERM":
		return handlers.Unroutable(err)
	case anyError:
		// The server reads no further after this one and hangs up: there is no code for it.
		if strings.HasPrefix(string(reply), "ERR Protocol error") {
			return handlers.Permanent(err)
		}
		if alone {
			return handlers.Refused(err)
		}
	}
	return handlers.Unavailable(err)
}

// anyError is the code of whatever has none of its own.
const anyError = "ERR"

func code(reply redigo.Error) string {
	first, _, _ := strings.Cut(string(reply), " ")
	return first
}

// sized reports whether every part of the message is one that the server would read.
func sized(limit int64, stream string, e encoded) error {
	largest := len(e.payload)
	for _, f := range e.fields {
		largest = max(largest, len(f))
	}
	if int64(largest) <= limit {
		return nil
	}
	return handlers.Permanent(fmt.Errorf("add to stream %s: a field has %d bytes, the server's proto-max-bulk-len is %d", stream, largest, limit))
}
