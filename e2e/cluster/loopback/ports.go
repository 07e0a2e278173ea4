// Package loopback chooses the ports on which the servers that tests start listen.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports come from a range that no usual system takes the ports of outgoing
// connections from, so that a port that is free now is still free when the
// server that it was chosen for listens on it.
const (
	firstPort = 20000
	lastPort  = 30000
)

// Ports returns a function that returns a free port of 127.0.0.1, a different one
// at each call, or an error if there is none.
func Ports() func() (int, error) {
	chosen := map[int]bool{}
	return func() (int, error) {
		for range lastPort - firstPort {
			port := firstPort + rand.IntN(lastPort-firstPort)
			if !chosen[port] && free(port) {
				chosen[port] = true
				return port, nil
			}
		}
		return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
	}
}

func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
