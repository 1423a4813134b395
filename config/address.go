package config

import (
	"net"
	"strconv"
)

// CheckAddress returns an error of the field for an address that is not host:port with a port that can be. The example is shown.
func CheckAddress(field, address, example string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return Invalid(field, "%q is not host:port; write for example %q", address, example)
	}
	return nil
}
