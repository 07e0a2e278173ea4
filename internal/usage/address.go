package usage

import (
	"errors"
	"net/url"
)

// errAddress does not contain the address, nor the parser's error: both can contain a password, or
// parts of it, if the address is malformed.
var errAddress = errors.New("the Prometheus URL must have the form http://host:port or https://host:port, " +
	"with %-encoding in the user and the password")

// parseAddress parses the address of a Prometheus server.
func parseAddress(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return nil, errAddress
	}
	return address, nil
}
