package command

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mqferry/mqferry/router"
)

// parkedJSON is a parked message as --json writes it. What is not UTF-8 is in the field with "hex" in its name.
type parkedJSON struct {
	ID         string       `json:"id"`
	Key        *string      `json:"key,omitempty"`
	KeyHex     string       `json:"key_hex,omitempty"`
	Class      string       `json:"class"`
	Reason     string       `json:"reason"`
	Attempts   int          `json:"attempts"`
	First      time.Time    `json:"first"`
	Last       time.Time    `json:"last"`
	Source     string       `json:"source"`
	Time       *time.Time   `json:"time,omitempty"`
	Bytes      int          `json:"bytes"`
	Headers    []headerJSON `json:"headers,omitempty"`
	Payload    *string      `json:"payload,omitempty"`
	PayloadHex string       `json:"payload_hex,omitempty"`
}

type headerJSON struct {
	Name     string  `json:"name"`
	Value    *string `json:"value,omitempty"` // Without a value it is null.
	ValueHex string  `json:"value_hex,omitempty"`
}

// writeJSON writes one line. Without whole it leaves headers and payload out.
func writeJSON(w io.Writer, m router.ParkedMessage, whole bool) error {
	r := m.Record
	j := parkedJSON{
		ID: r.ID, Class: m.Class, Reason: m.Reason, Attempts: m.Attempts, First: m.First, Last: m.Last, Source: place(m), Bytes: r.Size(),
	}
	if !r.Time.IsZero() {
		j.Time = &r.Time
	}
	j.Key, j.KeyHex = textOrHex(r.Key)
	if whole {
		j.Payload, j.PayloadHex = textOrHex(r.Value)
		for _, h := range r.Headers {
			text, inHex := textOrHex(h.Value)
			j.Headers = append(j.Headers, headerJSON{Name: h.Key, Value: text, ValueHex: inHex})
		}
	}
	line, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write message %q: %w", r.ID, err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// textOrHex gives nil and "" for null.
func textOrHex(b []byte) (text *string, inHex string) {
	switch {
	case b == nil:
		return nil, ""
	case utf8.Valid(b):
		s := string(b)
		return &s, ""
	}
	return nil, hex.EncodeToString(b)
}

// place is where the message was read: datacenter/topic, and if they are known partition and position.
func place(m router.ParkedMessage) string {
	s := m.Record.Source
	text := s.DataCenter + "/" + s.Topic
	if s.Lane != "" {
		text += "/" + s.Lane
	}
	if s.Position != "" {
		text += "@" + s.Position
	}
	return text
}

// writeText writes everything there is to know for a person. Nothing in a message can move the cursor or change colours.
func writeText(w io.Writer, m router.ParkedMessage) error {
	r := m.Record
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-10s %s\n", name, value) }
	line("id", printable(r.ID))
	line("source", printable(place(m)))
	if !r.Time.IsZero() {
		line("time", r.Time.Format(time.RFC3339Nano))
	}
	line("class", printable(m.Class))
	line("reason", printable(m.Reason))
	line("attempts", fmt.Sprintf("%d, from %s to %s", m.Attempts, m.First.Local().Format(time.DateTime), m.Last.Local().Format(time.DateTime)))
	if r.Key != nil {
		line("key", shown(r.Key))
	}
	for _, h := range r.Headers {
		line("header", printable(h.Key)+": "+shown(h.Value))
	}
	line("payload", payload(r.Value))
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// payload shows JSON with indents, text as it is, and bytes as a hex dump.
func payload(b []byte) string {
	var indented bytes.Buffer
	switch {
	case len(b) > 0 && json.Valid(b) && json.Indent(&indented, b, "", "  ") == nil && utf8.Valid(b):
		return fmt.Sprintf("%d bytes of JSON\n%s", len(b), printableLines(indented.String()))
	case len(b) > 0 && isText(b):
		return fmt.Sprintf("%d bytes of text\n%s", len(b), printableLines(string(b)))
	case len(b) > 0:
		return fmt.Sprintf("%d bytes\n%s", len(b), strings.TrimRight(hex.Dump(b), "\n"))
	case b == nil:
		return "null"
	}
	return "empty"
}

func shown(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case isText(b):
		return printable(string(b))
	}
	return "hex " + hex.EncodeToString(b)
}

func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' })
}

// printable replaces what is not for printing.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// report says what was done, as a line for people or for programs.
func (c *poisonCall) report(numbers map[string]any, format string, args ...any) {
	if !c.json {
		fmt.Fprintf(c.out, format+"\n", args...)
		return
	}
	// A map of numbers can always be written.
	line, _ := json.Marshal(numbers)
	fmt.Fprintf(c.out, "%s\n", line)
}
