package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/internal/kafka"
)

// Protocol is what a listener speaks below the Kafka protocol.
type Protocol string

const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// ID is the protocol's number in broker registrations.
func (p Protocol) ID() int16 {
	switch p {
	case SSL:
		return 1
	case SASLPlaintext:
		return 2
	case SASLSSL:
		return 3
	default:
		return 0
	}
}

// Listener is one address to accept connections on. Two may share a name where one is IPv4 and the other IPv6.
type Listener struct {
	Name     string // in capitals
	Protocol Protocol
	Host     string // empty: every interface
	Port     uint16 // 0: any free one

	// What clients are told; never a wildcard. A port of 0 is the one that is bound.
	AdvertisedHost string
	AdvertisedPort uint16

	Controller bool // one of controller.listener.names, or the brokers' own: for nodes of the cluster only
	Peers      bool // nodes of the cluster use it, alone or beside clients
}

// PeerListenerName is the listener that brokers talk over where no Kafka setting names one.
const PeerListenerName = "PEER"

// Address is what to bind, for net.Listen.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

// String gives the form of the setting: NAME://host:port.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// advertised gives the form of the setting advertised.listeners.
func (l Listener) advertised() string {
	return l.Name + "://" + net.JoinHostPort(l.AdvertisedHost, strconv.Itoa(int(l.AdvertisedPort)))
}

// endpoint is one element of listeners or advertised.listeners.
type endpoint struct {
	name, host string
	port       uint16
}

// parseEndpoint reads NAME://host:port; the host may be empty or in brackets.
func parseEndpoint(s string) (endpoint, error) {
	name, address, ok := strings.Cut(s, "://")
	if !ok || name == "" {
		return endpoint{}, kafka.Errorf(kafka.InvalidConfig, "Unable to parse a listener name from %s", s)
	}
	host, port, ok := splitHostPort(address)
	if !ok {
		return endpoint{}, kafka.Errorf(kafka.InvalidConfig, "Unable to parse %s to a broker endpoint", s)
	}
	return endpoint{strings.ToUpper(name), host, port}, nil
}

const endpointForm = "NAME://host:port, ..."

// isWildcard reports whether binding host binds every interface.
func isWildcard(host string) bool {
	if host == "" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsUnspecified()
}

// isLoopback reports whether host is reached from this machine only.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// listeners works out what to bind and what to tell clients.
func (b *builder) listeners() {
	endpoints := b.endpoints("listeners")
	explicit := len(endpoints) > 0
	if !explicit && b.server.Roles.Broker {
		endpoints = []endpoint{{"PLAINTEXT", "127.0.0.1", 9092}}
		if b.in.Host.IPv6Loopback {
			endpoints = append(endpoints, endpoint{"PLAINTEXT", "::1", 9092})
		}
	}
	advertised := b.advertised(endpoints)
	controllers := b.controllerNames(endpoints)
	protocols := b.protocols(controllers)
	for _, e := range endpoints {
		protocol, ok := protocols[e.name]
		if !ok {
			b.fail("listeners", fmt.Sprintf("No security protocol defined for listener %s in listener.security.protocol.map", e.name), "")
		} else if protocol != Plaintext {
			b.fail("listeners", fmt.Sprintf("listener %s asks for %s, and this version has listeners without TLS and SASL only", e.name, protocol),
				"listeners with the protocol PLAINTEXT")
		}
		l := Listener{Name: e.name, Protocol: protocol, Host: e.host, Port: e.port, Controller: slices.Contains(controllers, e.name)}
		b.advertise(&l, advertised, explicit)
		b.server.Listeners = append(b.server.Listeners, l)
	}
	b.checkPorts(endpoints)
	clients := slices.ContainsFunc(b.server.Listeners, func(l Listener) bool { return !l.Controller })
	switch roles := b.server.Roles; {
	case roles.Broker && !clients:
		b.fail("listeners", "There must be at least one listener for clients, and all of these appear in controller.listener.names", "")
	case !roles.Broker && (clients || len(endpoints) == 0):
		b.fail("listeners", "The listeners config must only contain KRaft controller listeners from controller.listener.names when process.roles=controller", "")
	}
	if b.server.Roles.Broker {
		b.interBroker()
	}
	for i := range b.server.Listeners {
		l := &b.server.Listeners[i]
		l.Peers = l.Controller || l.Name == b.server.InterBrokerListener
	}
	b.warnExposed()
}

// endpoints reads listeners or advertised.listeners.
func (b *builder) endpoints(name string) []endpoint {
	var endpoints []endpoint
	for _, element := range b.list(name) {
		e, err := parseEndpoint(element)
		if err != nil {
			b.fail(name, err.Error(), endpointForm)
			continue
		}
		endpoints = append(endpoints, e)
	}
	return endpoints
}

// advertised reads advertised.listeners into a map by name.
func (b *builder) advertised(bound []endpoint) map[string]endpoint {
	const name = "advertised.listeners"
	byName := make(map[string]endpoint)
	for _, e := range b.endpoints(name) {
		switch {
		case !slices.ContainsFunc(bound, func(l endpoint) bool { return l.name == e.name }):
			b.fail(name, fmt.Sprintf("there is no listener %s in listeners", e.name), strings.Join(names(bound), ", "))
		case e.host != "" && isWildcard(e.host):
			b.fail(name, fmt.Sprintf("advertised.listeners cannot use the nonroutable meta-address %s. Use a routable IP address.", e.host), "")
		}
		if _, twice := byName[e.name]; twice {
			b.fail(name, fmt.Sprintf("listener %s is advertised twice", e.name), "one address a listener")
		}
		byName[e.name] = e
	}
	return byName
}

func names(endpoints []endpoint) []string {
	var names []string
	for _, e := range endpoints {
		if !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// controllerNames reads controller.listener.names. Where the node is a controller they have to be among its listeners,
// where it is a broker only they must not be: they are other nodes' then.
func (b *builder) controllerNames(bound []endpoint) []string {
	const name = "controller.listener.names"
	var controllers []string
	for _, element := range b.list(name) {
		controllers = append(controllers, strings.ToUpper(element))
	}
	b.server.ControllerListeners = controllers
	known := names(bound)
	for _, c := range controllers {
		switch there := slices.Contains(known, c); {
		case b.server.Roles.Controller && !there:
			b.fail(name, fmt.Sprintf("there is no listener %s in listeners", c), strings.Join(known, ", "))
		case !b.server.Roles.Controller && there:
			b.fail(name, fmt.Sprintf("listener %s must not be in listeners, since process.roles is broker alone", c), "")
		}
	}
	return controllers
}

// protocols reads listener.security.protocol.map. While that is not set, controller listeners are PLAINTEXT too, as in
// Kafka.
func (b *builder) protocols(controllers []string) map[string]Protocol {
	const name = "listener.security.protocol.map"
	protocols := make(map[string]Protocol)
	for _, element := range splitList(javaTrim(b.text(name))) {
		if element == "" {
			continue
		}
		listener, protocol, _ := strings.Cut(element, ":")
		p := Protocol(strings.ToUpper(strings.TrimSpace(protocol)))
		listener = strings.ToUpper(strings.TrimSpace(listener))
		if listener == "" || p != Plaintext && p != SSL && p != SASLPlaintext && p != SASLSSL {
			b.fail(name, fmt.Sprintf("%s is no listener with its protocol", element), "NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, ...")
		}
		protocols[listener] = p
	}
	if _, set := b.settings[name]; !set {
		for _, c := range controllers {
			if _, ok := protocols[c]; !ok {
				protocols[c] = Plaintext
			}
		}
	}
	return protocols
}

// advertise decides what clients of l are told. A wildcard is nothing that a client could dial.
func (b *builder) advertise(l *Listener, advertised map[string]endpoint, explicit bool) {
	switch e, ok := advertised[l.Name]; {
	case ok && e.host != "":
		l.AdvertisedHost, l.AdvertisedPort = e.host, e.port
	case ok:
		l.AdvertisedHost, l.AdvertisedPort = b.in.Host.Name, e.port
	case !explicit:
		l.AdvertisedHost, l.AdvertisedPort = "localhost", l.Port // one name for both kinds of loopback
	case isWildcard(l.Host):
		l.AdvertisedHost, l.AdvertisedPort = b.in.Host.Name, l.Port
		if !l.Controller {
			b.warnings.Notes = append(b.warnings.Notes, fmt.Sprintf(
				"listener %s binds every interface and has no advertised address: clients are told %s, which they must be able to resolve (advertised.listeners)",
				l.Name, l.AdvertisedHost))
		}
	default:
		l.AdvertisedHost, l.AdvertisedPort = l.Host, l.Port
		for _, first := range b.server.Listeners { // the second of a pair of IPv4 and IPv6
			if first.Name == l.Name {
				l.AdvertisedHost, l.AdvertisedPort = first.AdvertisedHost, first.AdvertisedPort
			}
		}
	}
}

// checkPorts allows one name or one port twice only to a pair of an IPv4 and an IPv6 address (KIP-797).
func (b *builder) checkPorts(endpoints []endpoint) {
	for i, e := range endpoints {
		for _, other := range endpoints[:i] {
			samePort := e.port == other.port && e.port != 0
			pair := e.port == other.port && isIPv4(e.host) != isIPv4(other.host) && isIP(e.host) && isIP(other.host)
			switch {
			case pair:
			case e.name == other.name:
				b.fail("listeners", fmt.Sprintf("Each listener must have a different name, and %s stands twice", e.name), "")
			case samePort && (e.host == other.host || isWildcard(e.host) || isWildcard(other.host)):
				b.fail("listeners", fmt.Sprintf("Each listener must have a different port, and %s and %s both have %d", other.name, e.name, e.port), "")
			}
		}
	}
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func isIPv4(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Is4()
}

// interBroker finds the listener that brokers use among themselves, by name or by protocol. Where no setting of Kafka's
// says anything of nodes that talk to each other, they have a listener of their own.
func (b *builder) interBroker() {
	name := "inter.broker.listener.name"
	want := strings.ToUpper(b.text(name))
	if want == "" {
		name = "security.inter.broker.protocol"
		if _, set := b.settings[name]; !set && len(b.server.ControllerListeners) == 0 {
			b.peerListener()
			return
		}
		want = strings.ToUpper(b.text(name))
	}
	var known []string
	for _, l := range b.server.Listeners {
		if !l.Controller && !slices.Contains(known, l.Name) {
			known = append(known, l.Name)
		}
	}
	if !slices.Contains(known, want) {
		b.fail(name, fmt.Sprintf("there is no listener %s in listeners", want), strings.Join(known, ", "))
	}
	b.server.InterBrokerListener = want
}

// peerListener is where the first listener is, at a port of its own.
func (b *builder) peerListener() {
	b.server.InterBrokerListener = PeerListenerName
	l := Listener{Name: PeerListenerName, Protocol: Plaintext, Port: uint16(b.server.value("weir.peer.port").num), Controller: true, Peers: true}
	if len(b.server.Listeners) > 0 {
		first := b.server.Listeners[0]
		l.Host, l.AdvertisedHost = first.Host, first.AdvertisedHost
	}
	l.AdvertisedPort = l.Port
	b.server.PeerListener = &l
}

// StartListeners are what is bound at the start whatever the data directory says. The brokers' own is among them where
// there are other nodes by the settings, or it has a port: a broker that is alone needs no second one.
func (s *Server) StartListeners() []Listener {
	if s.PeerListener != nil && (len(s.Quorum.Voters) > 0 || len(s.Join) > 0 || s.PeerListener.Port != 0) {
		return append(slices.Clone(s.Listeners), *s.PeerListener)
	}
	return s.Listeners
}

// warnExposed tells, once, that others than this machine get in without a login.
func (b *builder) warnExposed() {
	if warning := Exposed(b.server.StartListeners()); warning != "" {
		b.warnings.Notes = append(b.warnings.Notes, warning)
	}
}

// Exposed is a warning about those listeners that others than this machine can use without a login; empty where there are
// none.
func Exposed(listeners []Listener) string {
	var open []string
	for _, l := range listeners {
		if !isLoopback(l.Host) && l.Protocol == Plaintext {
			open = append(open, l.String())
		}
	}
	if len(open) == 0 {
		return ""
	}
	return "everybody who can reach " + strings.Join(open, ", ") + " can read, write and delete everything: there is no TLS and no login on it"
}
