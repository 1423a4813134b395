package record

// scanned is up to how many headers looking through them all beats building a map, and allocates nothing.
const scanned = 32

type span struct{ first, last int }

// index finds the first and the last header of a name.
type index struct {
	headers []Header
	spans   map[string]span
}

func newIndex(headers []Header) index {
	x := index{headers: headers}
	if len(headers) <= scanned {
		return x
	}
	x.spans = make(map[string]span, len(headers))
	for i := range headers {
		s, ok := x.spans[headers[i].Key]
		if !ok {
			s.first = i
		}
		s.last = i
		x.spans[headers[i].Key] = s
	}
	return x
}

// first gives the position of the first header called name, or -1.
func (x *index) first(name string) int {
	if x.spans != nil {
		if s, ok := x.spans[name]; ok {
			return s.first
		}
		return -1
	}
	for i := range x.headers {
		if x.headers[i].Key == name {
			return i
		}
	}
	return -1
}

// last gives the position of the last header called name, or -1.
func (x *index) last(name string) int {
	if x.spans != nil {
		if s, ok := x.spans[name]; ok {
			return s.last
		}
		return -1
	}
	for i := len(x.headers) - 1; i >= 0; i-- {
		if x.headers[i].Key == name {
			return i
		}
	}
	return -1
}
