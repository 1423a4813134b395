package config

import (
	"slices"
	"strings"
)

// nearest returns the one of the names that was probably meant, or "".
func nearest(name string, names []string) string {
	// A long name is no slip of the pen, and the distance takes time with the square of the length.
	if len(name) > 100 {
		return ""
	}
	best, least := "", 3
	for _, candidate := range names {
		d := distance(folded(name), folded(candidate))
		// Half of a short name must be right.
		if d < least && 2*d <= len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

// instead says what would be right in place of a name that is not among the names.
func instead(name string, names []string) string {
	var b strings.Builder
	if near := nearest(name, names); near != "" {
		b.WriteString("; did you mean " + quoted(near) + "?")
	}
	b.WriteString(" (have: ")
	if len(names) == 0 {
		b.WriteString("none")
	}
	b.WriteString(strings.Join(names, ", ") + ")")
	return b.String()
}

func folded(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// distance is how many letters must be put in, taken out or replaced to make one of the other.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			change := diagonal
			if x[i] != y[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(y)]
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}
