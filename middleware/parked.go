package middleware

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mqferry/mqferry/handlers"
	"github.com/mqferry/mqferry/handlers/record"
)

// The headers of a parked message, beside those that it had.
const (
	PoisonRoute      = "mqferry_poison_route"      // The route that parked it.
	PoisonDataCenter = "mqferry_poison_datacenter" // Where it was read: data center,
	PoisonTopic      = "mqferry_poison_topic"      // topic,
	PoisonLane       = "mqferry_poison_lane"       // partition, where there are any,
	PoisonPosition   = "mqferry_poison_position"   // offset or entry id, where there is one.
	PoisonClass      = "mqferry_poison_class"      // The class of the error: refused, permanent, full, unroutable.
	PoisonReason     = "mqferry_poison_reason"     // The first line of the error.
	PoisonAttempts   = "mqferry_poison_attempts"   // How often it was tried.
	PoisonFirst      = "mqferry_poison_first"      // When it failed first and last, as RFC 3339 writes it.
	PoisonLast       = "mqferry_poison_last"
	poisonID         = "mqferry_poison_id"     // The message's own id, key and null, which the queue has other uses for.
	poisonKey        = "mqferry_poison_key"    //
	poisonNull       = "mqferry_poison_null"   //
	poisonAside      = "mqferry_poison_aside_" // Begins the name of a header that isAside.
)

// poisonPrefix begins the names of all of them.
const poisonPrefix = "mqferry_poison_"

// maxReason bounds the reason, in bytes.
const maxReason = 500

// isAside reports whether a header must not mean anything to the poison queue's broker: RabbitMQ would throw the message away when it expires, let it overtake others, and
// tell later where the parked copy was published to.
func isAside(name string) bool {
	switch name {
	case record.ExpirationEntry, record.PriorityEntry, record.ExchangeEntry, record.RoutingKeyEntry:
		return true
	}
	return false
}

// Parked gives the record that is parked for r: r whole, with headers that say which route could not deliver it and why. Its id and key tell it
// from every other parked message, and are the same when r is delivered, and parked, again, if it was read from a place that can be named: a compacted
// queue keeps one of them. Its value is never null, which would be a deletion there.
func Parked(r *record.Record, route string, err error) *record.Record {
	f := failureOf(err)
	out := *r
	out.ID = record.DeriveID(r.Source)
	switch {
	case out.ID == "":
		out.ID = rand.Text()
	case !r.Time.IsZero(): // A topic that is deleted and made again has the same places anew.
		out.ID += "~" + strconv.FormatInt(r.Time.UnixMilli(), 10)
	}
	out.ID = route + "/" + out.ID
	out.Key = []byte(out.ID)
	out.Headers = make([]record.Header, 0, len(r.Headers)+13)
	for _, h := range r.Headers {
		switch {
		case strings.HasPrefix(h.Key, poisonPrefix):
			h.Key = record.EscapedPrefix + h.Key // Of a message that was parked before, by somebody else.
		case isAside(h.Key):
			h.Key = poisonAside + h.Key
		}
		out.Headers = append(out.Headers, h)
	}
	add := func(key, value string) {
		if value != "" {
			out.Headers = append(out.Headers, record.Header{Key: key, Value: []byte(value)})
		}
	}
	add(PoisonRoute, route)
	add(PoisonDataCenter, r.Source.DataCenter)
	add(PoisonTopic, r.Source.Topic)
	add(PoisonLane, r.Source.Lane)
	add(PoisonPosition, r.Source.Position)
	add(PoisonClass, className(f.Err))
	add(PoisonReason, firstLine(f.Err))
	add(PoisonAttempts, strconv.Itoa(f.Attempts))
	add(PoisonFirst, f.First.UTC().Format(time.RFC3339Nano))
	add(PoisonLast, f.Last.UTC().Format(time.RFC3339Nano))
	add(poisonID, r.ID)
	if r.Key != nil {
		out.Headers = append(out.Headers, record.Header{Key: poisonKey, Value: r.Key})
	}
	if r.Value == nil {
		out.Value = []byte{}
		add(poisonNull, "1")
	}
	return &out
}

// Unparked gives the record for which Parked made a parked one, and the headers that say why by their names. Ok is false for a message that nobody parked.
func Unparked(parked *record.Record) (r *record.Record, why map[string]string, ok bool) {
	out := *parked
	out.ID, out.Key, out.Headers, out.Source = "", nil, nil, record.Source{}
	why = map[string]string{}
	for _, h := range parked.Headers {
		switch name, escaped := strings.CutPrefix(h.Key, record.EscapedPrefix); {
		case escaped && strings.HasPrefix(name, poisonPrefix):
			h.Key = name
		case h.Key == poisonID:
			out.ID = string(h.Value)
			continue
		case h.Key == poisonKey:
			out.Key = h.Value
			continue
		case h.Key == poisonNull:
			out.Value = nil
			continue
		case strings.HasPrefix(h.Key, poisonAside):
			h.Key = h.Key[len(poisonAside):]
		case strings.HasPrefix(h.Key, poisonPrefix):
			why[h.Key] = string(h.Value)
			continue
		}
		out.Headers = append(out.Headers, h)
	}
	out.Source = record.Source{
		DataCenter: why[PoisonDataCenter], Topic: why[PoisonTopic], Lane: why[PoisonLane], Position: why[PoisonPosition],
	}
	return &out, why, why[PoisonRoute] != ""
}

func failureOf(err error) Failure {
	var known *Failure
	if errors.As(err, &known) {
		return *known
	}
	now := time.Now()
	return Failure{Err: err, Attempts: 1, First: now, Last: now}
}

// className calls an error without a class refused: it came from a middleware.
func className(err error) string {
	if c := handlers.ClassOf(err); c != handlers.Unclassified {
		return c.String()
	}
	return handlers.ClassRefused.String()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > maxReason {
		line = strings.ToValidUTF8(line[:maxReason], "") + "…"
	}
	return line
}
