package broker

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"weir/broker/config"
	"weir/cluster/metadata"
)

// boundListener is a listener that clients will be accepted on.
type boundListener struct {
	config.Listener
	socket net.Listener
}

// BindError says that a listener's address cannot be had.
type BindError struct {
	Listener config.Listener
	Err      error
}

// Error names the address and, where another program has it, the two flags that make a second broker possible.
func (e *BindError) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s: the port is in use; another broker may be running. Choose another with --listen, and with --data-dir a directory of its own",
			e.Listener.Address())
	}
	return fmt.Sprintf("%s: %v", e.Listener.Address(), e.Err)
}

// Unwrap gives the system's error.
func (e *BindError) Unwrap() error { return e.Err }

// bind opens the sockets. Listeners of one name that ask for any free port get the same one where that can be had, since
// a client is told one port for both families.
func bind(listeners []config.Listener) ([]boundListener, error) {
	var bound []boundListener
	ports := make(map[string]int) // listener name → the port that the system chose
	for _, l := range listeners {
		address := l.Address()
		if port, ok := ports[l.Name]; ok && l.Port == 0 {
			address = net.JoinHostPort(l.Host, strconv.Itoa(port))
		}
		nl, err := net.Listen("tcp", address)
		if err != nil {
			closeAll(bound)
			return nil, &BindError{l, err}
		}
		ports[l.Name] = nl.Addr().(*net.TCPAddr).Port
		bound = append(bound, boundListener{l, nl})
	}
	return bound, nil
}

func closeAll(bound []boundListener) {
	for _, b := range bound {
		_ = b.socket.Close()
	}
}

func (b boundListener) port() uint16 { return uint16(b.socket.Addr().(*net.TCPAddr).Port) }

// endpoints are the addresses that clients are told, one for each listener name.
func endpoints(bound []boundListener) []metadata.Endpoint {
	var out []metadata.Endpoint
	seen := make(map[string]bool)
	for _, b := range bound {
		if seen[b.Name] || b.Controller {
			continue
		}
		seen[b.Name] = true
		port := b.AdvertisedPort
		if port == 0 {
			port = b.port()
		}
		out = append(out, metadata.Endpoint{Name: b.Name, Host: b.AdvertisedHost, Port: port, Security: b.Protocol.ID()})
	}
	return out
}
