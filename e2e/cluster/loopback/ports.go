// Package loopback chooses ports for the servers that tests start.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Usual systems do not use this range for outgoing connections. Therefore a port
// that is free now is still free when the server starts to listen on it.
const (
	firstPort = 20000
	lastPort  = 30000
)

// Ports returns a function that returns a different free port of 127.0.0.1 at each
// call, or an error if no port is free.
func Ports() func() (int, error) {
	chosen := map[int]bool{}
	return func() (int, error) {
		for range lastPort - firstPort {
			port := firstPort + rand.IntN(lastPort-firstPort)
			if !chosen[port] && isFree(port) {
				chosen[port] = true
				return port, nil
			}
		}
		return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
	}
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
