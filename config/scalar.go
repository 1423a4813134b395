package config

import (
	"math"
	"reflect"
	"strconv"
)

// scalar reads a single value by what it is read into, whether it is quoted in the file or not.
func (d *decoder) scalar(n *node, v reflect.Value) {
	if n.kind != scalar {
		d.fail(n, "is %s, not a single value", n.what())
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.text)
	case reflect.Bool:
		d.boolean(n, v)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(n, v)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.unsigned(n, v)
	case reflect.Float32, reflect.Float64:
		d.float(n, v)
	default:
		panic("config: cannot decode into " + v.Type().String())
	}
}

func (d *decoder) boolean(n *node, v reflect.Value) {
	if n.text != "true" && n.text != "false" {
		d.fail(n, "%s is neither true nor false", n.shown())
		return
	}
	v.SetBool(n.text == "true")
}

func (d *decoder) integer(n *node, v reflect.Value) {
	bits := v.Type().Bits()
	value, err := strconv.ParseInt(n.text, 10, bits)
	switch {
	case err == nil:
		v.SetInt(value)
	case isWhole(n.text):
		d.fail(n, "%s is not between %d and %d", n.shown(), int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
	default:
		d.fail(n, "%s is not a whole number", n.shown())
	}
}

func (d *decoder) unsigned(n *node, v reflect.Value) {
	bits := v.Type().Bits()
	value, err := strconv.ParseUint(n.text, 10, bits)
	switch {
	case err == nil:
		v.SetUint(value)
	case isWhole(n.text):
		d.fail(n, "%s is not between 0 and %d", n.shown(), uint64(math.MaxUint64)>>(64-bits))
	default:
		d.fail(n, "%s is not a whole number", n.shown())
	}
}

func (d *decoder) float(n *node, v reflect.Value) {
	value, err := strconv.ParseFloat(n.text, v.Type().Bits())
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		d.fail(n, "%s is not a number", n.shown())
		return
	}
	v.SetFloat(value)
}

func isWhole(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}
