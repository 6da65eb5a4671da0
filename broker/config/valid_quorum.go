package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"weir/internal/kafka"
)

// Voter is one node that founds the cluster.
type Voter struct {
	ID   kafka.BrokerID
	Host string
	Port uint16
}

// Address is what to dial.
func (v Voter) Address() string { return net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port))) }

// quorumVoters is a list of id@host:port.
type quorumVoters struct{}

func (quorumVoters) String() string { return "{id}@{host}:{port},..." }

func (quorumVoters) check(name string, v value) error {
	_, err := parseVoters(name, v.list)
	return err
}

func parseVoters(name string, list []string) ([]Voter, error) {
	const form = "Each entry should be in the form `{id}@{host}:{port}`."
	voters := make([]Voter, 0, len(list))
	for _, entry := range list {
		id, address, ok := strings.Cut(entry, "@")
		if !ok {
			return nil, kafka.Errorf(kafka.InvalidConfig, "Invalid configuration value for %s. %s", name, form)
		}
		n, ok := javaInteger(id, 32)
		if !ok {
			return nil, kafka.Errorf(kafka.InvalidConfig, "Failed to parse voter ID as an integer from %s", id)
		}
		host, port, ok := splitHostPort(address)
		if !ok || host == "" {
			return nil, kafka.Errorf(kafka.InvalidConfig, "Failed to parse host name from entry %s for the configuration %s. %s", entry, name, form)
		}
		voters = append(voters, Voter{kafka.BrokerID(n), host, port})
	}
	return voters, nil
}

// bootstrapServers is a list of host:port.
type bootstrapServers struct{}

func (bootstrapServers) String() string { return "{host}:{port},..." }

func (bootstrapServers) check(name string, v value) error {
	for _, entry := range v.list {
		if host, _, ok := splitHostPort(entry); !ok || host == "" {
			return kafka.Errorf(kafka.InvalidConfig,
				"Failed to parse host name from %s for the configuration %s. Each entry should be in the form \"{host}:{port}\"", entry, name)
		}
	}
	return nil
}

// joinAddresses is a list of host:port, of which the port is no free one.
type joinAddresses struct{}

func (joinAddresses) String() string { return "{host}:{port},..." }

func (joinAddresses) check(name string, v value) error {
	for _, entry := range v.list {
		if host, port, ok := splitHostPort(entry); !ok || host == "" || port == 0 {
			return &InvalidValueError{name, entry, "not an address of a node"}
		}
	}
	return nil
}

// splitHostPort takes host:port apart at the last colon; brackets about an IPv6 address may be left out, as in Kafka.
// The host may be empty.
func splitHostPort(s string) (host string, port uint16, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	host = s[:i]
	if inner, found := strings.CutPrefix(host, "["); found {
		if host, found = strings.CutSuffix(inner, "]"); !found {
			return "", 0, false
		}
		if _, err := netip.ParseAddr(host); err != nil {
			return "", 0, false
		}
	}
	if strings.ContainsFunc(host, func(r rune) bool { return !isHostLetter(r) }) {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 16)
	return host, uint16(n), err == nil
}

// isHostLetter is Kafka's idea of what a host name or address consists of; the underscore is Docker's.
func isHostLetter(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("-%._:", r)
}
