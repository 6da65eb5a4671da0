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

// boundListener is a listener that clients or other nodes will be accepted on.
type boundListener struct {
	config.Listener
	socket net.Listener
}

// BindError says that an address of the settings cannot be had.
type BindError struct {
	Listener config.Listener // named after the setting where it is no listener for requests
	Err      error
}

// Error names the address and, where another program has it, the two flags that make a second broker possible.
func (e *BindError) Error() string {
	if e.Listener.Name == gossipPortSetting {
		return fmt.Sprintf("%s=%d cannot be had at %s, for UDP and TCP: %v", e.Listener.Name, e.Listener.Port, e.Listener.Host, e.Err)
	}
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s: the port is in use; another broker may be running. Choose another with --listen, and with --data-dir a directory of its own",
			e.Listener.Address())
	}
	return fmt.Sprintf("%s: %v", e.Listener.Address(), e.Err)
}

// Unwrap gives the system's error.
func (e *BindError) Unwrap() error { return e.Err }

// bind opens the sockets of listeners. Listeners of one name that ask for any free port get the same one,
// since a client is told one port for both families.
func bind(listeners []config.Listener, listen func(network, address string) (net.Listener, error)) ([]boundListener, error) {
	const attempts = 20 // a port that is free for one family may be taken for the other
	var err error
	for range attempts {
		var bound []boundListener
		var chosen bool
		if bound, chosen, err = bindOnce(listeners, listen); err == nil || !chosen || !errors.Is(err, syscall.EADDRINUSE) {
			return bound, err
		}
	}
	return nil, err
}

// bindOnce reports, with an error, whether the port was one that the system had chosen for another listener.
func bindOnce(listeners []config.Listener, listen func(network, address string) (net.Listener, error)) (bound []boundListener, chosen bool, err error) {
	ports := make(map[string]int) // listener name → the port that the system chose
	for _, l := range listeners {
		address := l.Address()
		port, chosen := ports[l.Name]
		if chosen = chosen && l.Port == 0; chosen {
			address = net.JoinHostPort(l.Host, strconv.Itoa(port))
		}
		nl, err := listen("tcp", address)
		if err != nil {
			closeAll(bound)
			return nil, chosen, &BindError{l, err}
		}
		if l.Port == 0 {
			ports[l.Name] = nl.Addr().(*net.TCPAddr).Port
		}
		bound = append(bound, boundListener{l, nl})
	}
	return bound, false, nil
}

func closeAll(bound []boundListener) {
	for _, b := range bound {
		_ = b.socket.Close()
	}
}

func (b boundListener) port() uint16 { return uint16(b.socket.Addr().(*net.TCPAddr).Port) }

// endpoints are the addresses that are told of the listeners that want is true of, one for each name.
func endpoints(bound []boundListener, want func(config.Listener) bool) []metadata.Endpoint {
	var out []metadata.Endpoint
	seen := make(map[string]bool)
	for _, b := range bound {
		if seen[b.Name] || !want(b.Listener) {
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

func forClients(l config.Listener) bool { return !l.Controller }
