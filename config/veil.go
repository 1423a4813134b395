package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// veil keeps what came out of ${…} out of messages. It is complete when the files are read and only read after that.
type veil struct{ hidden []hidden }

// hidden is a value that may be a secret, and what to show in its place.
type hidden struct{ value, shown string }

func (v *veil) hide(value, shown string) {
	if value == "" || value == shown {
		return
	}
	v.hidden = append(v.hidden, hidden{value, shown})
	escaped := strconv.Quote(value)
	if escaped = escaped[1 : len(escaped)-1]; escaped != value {
		v.hidden = append(v.hidden, hidden{escaped, shown})
	}
}

// over returns the message with every hidden value replaced by the expression that it came from. Values too short to be
// a secret are replaced only where they are quoted: "5" must not take the digits out of another number.
func (v *veil) over(message string) string {
	if v == nil {
		return message
	}
	const short = 6
	longest := slices.Clone(v.hidden)
	slices.SortStableFunc(longest, func(a, b hidden) int { return cmp.Compare(len(b.value), len(a.value)) })
	for _, h := range longest {
		if len(h.value) < short {
			message = strings.ReplaceAll(message, `"`+h.value+`"`, `"`+h.shown+`"`)
			continue
		}
		message = strings.ReplaceAll(message, h.value, h.shown)
	}
	return message
}
