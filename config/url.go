package config

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// URL is an address that may hold credentials, such as "amqps://user:password@host:5671/vhost". No log, error or dump shows more of it than
// scheme and host. In the password every character may stand as it is, since it ends at the last "@" of the whole URL; "%" and two hexadecimal digits
// are decoded. An "@" in the path or query is to be written "%40".
type URL struct {
	Scheme   string
	Username string
	Password Secret
	Host     string // host:port, or a host alone.
	Path     string // Without the leading "/", decoded. HasPath tells an empty one from none.
	HasPath  bool
	Query    url.Values
}

// UnmarshalText reads a URL. What it reports never quotes it.
func (u *URL) UnmarshalText(text []byte) error {
	scheme, rest, found := strings.Cut(string(text), "://")
	if !found || scheme == "" || strings.ContainsFunc(scheme, func(r rune) bool { return !isNameRune(r) && r != '+' }) {
		return errors.New(`is not a URL; write for example "amqp://user:password@host:5672/"`)
	}
	parsed := URL{Scheme: strings.ToLower(scheme)}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		name, password, _ := strings.Cut(rest[:at], ":")
		parsed.Username, parsed.Password = unescaped(name), Secret(unescaped(password))
		rest = rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	parsed.Host, parsed.Path, parsed.HasPath = strings.Cut(rest, "/")
	var err error
	if parsed.Path, err = url.PathUnescape(parsed.Path); err != nil {
		return errors.New(`has a "%" in its path that is not followed by two hexadecimal digits`)
	}
	if parsed.Query, err = url.ParseQuery(query); err != nil {
		return errors.New("has a query that cannot be read")
	}
	if parsed.Host == "" {
		return errors.New("has no host")
	}
	*u = parsed
	return nil
}

// unescaped decodes what is escaped; what only looks so stays as it is.
func unescaped(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

// Scheme pairs what a broker's URLs may begin with, without and with TLS, and what else there is to say of them.
type Scheme struct {
	Plain, Encrypted string
	Options          string // That stand beside the URL instead of in a query.
	Example          string
	Port             string // Where the URL has none.
}

// Check reports what is wrong with the URL of a broker. Encrypted says that there are options for TLS.
func (u URL) Check(s Scheme, encrypted bool) error {
	switch {
	case u.Scheme != s.Plain && u.Scheme != s.Encrypted:
		return Invalid("url", "begins with %q; write %s:// or, for TLS, %s://", u.Scheme+"://", s.Plain, s.Encrypted)
	case u.Scheme == s.Plain && encrypted:
		return Invalid("url", "is %s://, which has no TLS, and tls is set; write %s://", s.Plain, s.Encrypted)
	case len(u.Query) > 0:
		return Invalid("url", `has a query after "?"; write %s as options beside the url`, s.Options)
	}
	// Not quoted: a URL that lacks its "@" has the password where the port should be.
	if _, address := SplitAddress(u.Host, s.Port); CheckAddress("url", address, "") != nil {
		return Invalid("url", `has a port that is not a number, or no "@" behind the password; write for example %q`, s.Example)
	}
	return nil
}

// SplitAddress gives the host of host:port, and the address with the port that it may lack.
func SplitAddress(address, port string) (host, complete string) {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host, address
	}
	host = strings.Trim(address, "[]")
	return host, net.JoinHostPort(host, port)
}

// String gives scheme and host.
func (u URL) String() string { return u.Scheme + "://" + u.Host }

// GoString is String: a dump shows no credentials.
func (u URL) GoString() string { return u.String() }

// MarshalText is String.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
