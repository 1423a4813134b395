package rabbitmq

import (
	"math"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/mqferry/mqferry/handlers/record"
)

// property is what a message has beside its table of headers, and what a record keeps in a header of a declared name.
//
// The table may hold headers of that name too, and of that name escaped. So the names of a property stand on a ladder: the
// property itself, its declared name, that name escaped once, twice, … One rule makes both ways exact: everything on a ladder
// moves up one rung when it is read, and down one rung when it is written, if the lowest of it could be the property; otherwise
// all stay where they are.
type property uint8

const (
	contentType property = iota
	contentEncoding
	priority
	correlationID
	replyTo
	expiration
	messageType
	appID
	messageID
	timestamp
	exchange
	routingKey
	userID
	deliveryMode
	cc
	bcc
	messageUUID // The header record.IDKey, where it cannot be the message id.
	properties  // how many there are
)

const (
	reservedPrefix = "mqferry_"
	ccHeader       = "CC"
	bccHeader      = "BCC"
	directReply    = "amq.rabbitmq.reply-to" // Without a consumer of it, RabbitMQ closes the channel.

	maxExpiration = 10 * 365 * 24 * 60 * 60 * 1000 // RabbitMQ's own limit, in ms.
	maxSeconds    = math.MaxInt64 / 1000           // The others hold milliseconds.
)

// rung tells the ladder that a header's name is on, and how often it is escaped.
func rung(name string) (p property, escaped int, ok bool) {
	if !strings.HasPrefix(name, reservedPrefix) && name != record.IDKey {
		return 0, 0, false
	}
	name, escaped = unescaped(name)
	p, ok = propertyOf(name)
	return p, escaped, ok
}

func unescaped(name string) (bare string, times int) {
	for {
		rest, more := strings.CutPrefix(name, record.EscapedPrefix)
		if !more {
			return name, times
		}
		name = rest
		times++
	}
}

func propertyOf(name string) (property, bool) {
	for p := range properties {
		if p.name() == name {
			return p, true
		}
	}
	return 0, false
}

// name gives the declared name of p.
func (p property) name() string {
	return [...]string{
		contentType: record.ContentTypeEntry, contentEncoding: record.ContentEncodingEntry, priority: record.PriorityEntry,
		correlationID: record.CorrelationIDEntry, replyTo: record.ReplyToEntry, expiration: record.ExpirationEntry,
		messageType: record.TypeEntry, appID: record.AppIDEntry, messageID: record.MessageIDEntry, timestamp: record.TimestampEntry,
		exchange: record.ExchangeEntry, routingKey: record.RoutingKeyEntry, userID: record.UserIDEntry,
		deliveryMode: record.DeliveryModeEntry, cc: record.CCEntry, bcc: record.BCCEntry, messageUUID: record.IDKey,
	}[p]
}

// holds reports whether p could be what h says, in a message whose id is id. It is the same for a header of a record and for
// that header as it is stored.
func (p property) holds(h *record.Header, id string) bool {
	n := len(h.Value)
	if p == messageUUID {
		return h.Type != record.Bytes || n == 0
	}
	if h.Type != record.Bytes || n > maxShort {
		return false
	}
	switch p {
	case contentType, contentEncoding, correlationID, messageType, appID, exchange:
		return n > 0
	case replyTo:
		return n > 0 && string(h.Value) != directReply
	case routingKey:
		return true
	case priority:
		v, err := strconv.ParseUint(string(h.Value), 10, 8)
		return err == nil && v > 0 && strconv.Itoa(int(v)) == string(h.Value)
	case expiration:
		v, err := strconv.ParseInt(string(h.Value), 10, 64)
		return err == nil && 0 <= v && v <= maxExpiration
	case messageID:
		return n > 0 && id != "" || n == 0 && id != "" && len(id) <= maxShort
	case timestamp:
		v, err := strconv.ParseInt(string(h.Value), 10, 64)
		return n == 0 || err == nil && !common(v) && strconv.FormatInt(v, 10) == string(h.Value)
	}
	return false
}

// common reports whether a timestamp is one that every broker holds.
func common(seconds int64) bool { return 0 <= seconds && seconds <= maxSeconds }

// ladders is the lowest header on each ladder.
type ladders [properties]struct {
	h       *record.Header
	escaped int
}

// climb finds the lowest headers among entries; it points into them.
func climb(entries []record.Header) (l ladders, any bool) {
	for i := range entries {
		p, escaped, ok := rung(entries[i].Key)
		if ok && (l[p].h == nil || escaped < l[p].escaped) {
			l[p].h, l[p].escaped, any = &entries[i], escaped, true
		}
	}
	return l, any
}

// moves reports whether the lowest header of p could be the property.
func (l *ladders) moves(p property, id string) bool {
	return l[p].h != nil && p.holds(l[p].h, id)
}

// property gives the value of p if a header declares it.
func (l *ladders) property(p property, id string) (value string, ok bool) {
	if l[p].escaped > 0 || !l.moves(p, id) {
		return "", false
	}
	return string(l[p].h.Value), true
}

// identity gives message-id and the header record.IDKey for a record whose id is id.
func (l *ladders) identity(id string) (message, uuid string) {
	message, declared := l.property(messageID, id)
	switch {
	case declared && message == id:
		return message, ""
	case declared, len(id) > maxShort:
		return message, id
	}
	return id, id
}

// place gives the name under which a header of a record goes into the table, or the property that it is.
func (l *ladders) place(name, id, uuid string) (stored string, p property, is bool) {
	if copies, _ := copying(name); copies {
		return record.EscapedPrefix + name, 0, false
	}
	p, escaped, ok := rung(name)
	switch {
	case !ok || !l.moves(p, id) || p == messageUUID && uuid != "":
		return name, 0, false
	case escaped == 0:
		return "", p, true
	}
	return name[len(record.EscapedPrefix):], 0, false
}

// set gives the property to what is to be published. Those that only tell where the message was are left out, and so are
// message-id and timestamp, which depend on more than one header.
func (p property) set(out *amqp.Publishing, value string) {
	switch p {
	case contentType:
		out.ContentType = value
	case contentEncoding:
		out.ContentEncoding = value
	case priority:
		v, _ := strconv.ParseUint(value, 10, 8)
		out.Priority = uint8(v)
	case correlationID:
		out.CorrelationId = value
	case replyTo:
		out.ReplyTo = value
	case expiration:
		out.Expiration = value
	case messageType:
		out.Type = value
	case appID:
		out.AppId = value
	}
}
