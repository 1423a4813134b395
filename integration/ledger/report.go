package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxFindings is how many examples of each kind are kept.
const maxFindings = 5

// Kind is what is wrong with a message.
type Kind string

// The kinds of findings.
const (
	Lost       Kind = "lost"
	Damaged    Kind = "damaged"
	OutOfOrder Kind = "out of order"
	Duplicated Kind = "duplicated"
	Unknown    Kind = "unknown"
)

// Finding is an example of one kind: a message, its lane, and what happened around it.
type Finding struct {
	Kind   Kind
	Lane   string
	Seq    uint64
	Detail string
}

// Report is the state of the books.
type Report struct {
	// Produced is how many different messages were produced.
	Produced int
	// Arrived is how many different messages arrived, unknown ones included.
	Arrived int
	// Lost is how many were produced and have not arrived.
	Lost int
	// Duplicated is how many arrivals were of a message that had arrived before.
	Duplicated int
	// OutOfOrder is how many messages arrived for the first time when a later one of their lane had arrived already.
	OutOfOrder int
	// Damaged is how many arrivals had another fingerprint than what was produced.
	Damaged int
	// Unknown is how many arrived that were never produced.
	Unknown int
	// Findings holds the first few of each kind.
	Findings []Finding
}

// Err is nil when nothing is lost, damaged, unknown or out of order. Duplicates are no error here: how many are too many
// is the caller's to judge. The text holds the counts and the findings.
func (r Report) Err() error {
	if r.Lost == 0 && r.Damaged == 0 && r.Unknown == 0 && r.OutOfOrder == 0 {
		return nil
	}
	var text strings.Builder
	text.WriteString(r.String())
	for _, f := range r.Findings {
		fmt.Fprintf(&text, "\n  %s: lane %q, message %d: %s", f.Kind, f.Lane, f.Seq, f.Detail)
	}
	return errors.New(text.String())
}

// String gives the counts in one line, damaged and unknown ones only where there are any.
func (r Report) String() string {
	text := fmt.Sprintf("%d produced, %d delivered, %d lost, %d duplicated, %d out of order",
		r.Produced, r.Arrived, r.Lost, r.Duplicated, r.OutOfOrder)
	if r.Damaged > 0 {
		text += fmt.Sprintf(", %d damaged", r.Damaged)
	}
	if r.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", r.Unknown)
	}
	return text
}

// note keeps the first few findings of a kind.
func (r *Report) note(k Kind, seq uint64, format string, arguments ...any) {
	if r.room(k) {
		r.Findings = append(r.Findings, Finding{Kind: k, Seq: seq, Detail: fmt.Sprintf(format, arguments...)})
	}
}

func (r *Report) room(k Kind) bool {
	found := 0
	for _, f := range r.Findings {
		if f.Kind == k {
			found++
		}
	}
	return found < maxFindings
}

func (r *Report) add(other Report) {
	r.Produced += other.Produced
	r.Arrived += other.Arrived
	r.Lost += other.Lost
	r.Duplicated += other.Duplicated
	r.OutOfOrder += other.OutOfOrder
	r.Damaged += other.Damaged
	r.Unknown += other.Unknown
	for _, f := range other.Findings {
		if r.room(f.Kind) {
			r.Findings = append(r.Findings, f)
		}
	}
}

// sortFindings puts findings of a kind and a lane together, in the order of their numbers.
func (r *Report) sortFindings() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Seq, b.Seq))
	})
}
