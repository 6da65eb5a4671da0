package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// http reads where metrics, health and profiles are served; nowhere by default.
func (b *builder) http() {
	const name = "weir.http.listeners"
	var open []string
	for _, element := range b.list(name) {
		host, port, ok := splitHostPort(element)
		if !ok {
			b.fail(name, fmt.Sprintf("%s is no address", element), "host:port, ...")
			continue
		}
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		b.server.HTTPListeners = append(b.server.HTTPListeners, address)
		if !isLoopback(host) {
			open = append(open, "http://"+address)
		}
	}
	if len(open) > 0 {
		b.warnings.Notes = append(b.warnings.Notes,
			"everybody who can reach "+strings.Join(open, ", ")+" can read metrics, the names of topics among them, and take profiles: there is no login on it")
	}
}
