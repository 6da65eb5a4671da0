package config

import (
	"strings"
	"testing"
)

// plan writes listeners as name://bound advertised, one a line.
func plan(s *Server) string {
	var b strings.Builder
	for _, l := range s.Listeners {
		b.WriteString(l.String())
		if l.Controller {
			b.WriteString(" controller")
		}
		b.WriteString(" -> " + strings.TrimPrefix(l.advertised(), l.Name+"://") + "\n")
	}
	return b.String()
}

func TestListeners(t *testing.T) {
	const exposed = " can read, write and delete everything: there is no TLS and no login on it"
	const (
		abMap = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
		tcMap = "listener.security.protocol.map=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
	)
	for name, c := range map[string]struct {
		settings []string
		want     string
		notes    []string
	}{
		"none": {nil, "PLAINTEXT://127.0.0.1:9092 -> localhost:9092\nPLAINTEXT://[::1]:9092 -> localhost:9092\n", nil},
		"one of loopback": {[]string{"listeners=PLAINTEXT://127.0.0.1:0"},
			"PLAINTEXT://127.0.0.1:0 -> 127.0.0.1:0\n", nil},
		"a pair": {[]string{"listeners=PLAINTEXT://127.0.0.1:9,PLAINTEXT://[::1]:9"},
			"PLAINTEXT://127.0.0.1:9 -> 127.0.0.1:9\nPLAINTEXT://[::1]:9 -> 127.0.0.1:9\n", nil},
		"a wildcard is never advertised": {[]string{"listeners=PLAINTEXT://0.0.0.0:9092"},
			"PLAINTEXT://0.0.0.0:9092 -> box.test:9092\n",
			[]string{"listener PLAINTEXT binds every interface and has no advertised address: clients are told box.test, which they must be able to resolve (advertised.listeners)",
				"everybody who can reach PLAINTEXT://0.0.0.0:9092" + exposed}},
		"a wildcard for other nodes too": {[]string{"listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://a:9092", "weir.peer.port=9192"},
			"PLAINTEXT://0.0.0.0:9092 -> a:9092\n",
			[]string{"everybody who can reach PLAINTEXT://0.0.0.0:9092, PEER://0.0.0.0:9192" + exposed}},
		"a wildcard that joins": {[]string{"listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://a:9092", "weir.join=b:1"},
			"PLAINTEXT://0.0.0.0:9092 -> a:9092\n",
			[]string{"everybody who can reach PLAINTEXT://0.0.0.0:9092, PEER://0.0.0.0:0" + exposed}},
		"an empty host is a wildcard": {[]string{"listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://localhost:19092,"},
			"PLAINTEXT://:9092 -> localhost:19092\n", []string{"everybody who can reach PLAINTEXT://:9092" + exposed}},
		"an IPv6 wildcard": {[]string{"listeners=PLAINTEXT://[::]:9092", "advertised.listeners=PLAINTEXT://[2001:db8::1]:1"},
			"PLAINTEXT://[::]:9092 -> [2001:db8::1]:1\n", []string{"everybody who can reach PLAINTEXT://[::]:9092" + exposed}},
		"an empty advertised host": {[]string{"listeners=PLAINTEXT://127.0.0.1:1", "advertised.listeners=PLAINTEXT://:9092"},
			"PLAINTEXT://127.0.0.1:1 -> box.test:9092\n", nil},
		"two names": {[]string{"listeners=A://127.0.0.1:9092,B://127.0.0.1:9192", "advertised.listeners=A://a.test:1,b://b.test:2", abMap},
			"A://127.0.0.1:9092 -> a.test:1\nB://127.0.0.1:9192 -> b.test:2\n", nil},
		"a name that is not advertised keeps its own address": {[]string{"listeners=A://127.0.0.1:1,B://127.0.0.1:2", "advertised.listeners=A://a.test:1", abMap},
			"A://127.0.0.1:1 -> a.test:1\nB://127.0.0.1:2 -> 127.0.0.1:2\n", nil},
		"testcontainers": {[]string{"listeners=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094", tcMap,
			"controller.listener.names=CONTROLLER", "inter.broker.listener.name=BROKER", "advertised.listeners=PLAINTEXT://localhost:32768,BROKER://a1b2c3:9093",
			"controller.quorum.voters=1@localhost:9094", "process.roles=broker,controller"},
			"PLAINTEXT://0.0.0.0:9092 -> localhost:32768\nBROKER://0.0.0.0:9093 -> a1b2c3:9093\nCONTROLLER://0.0.0.0:9094 controller -> box.test:9094\n",
			[]string{"everybody who can reach PLAINTEXT://0.0.0.0:9092, BROKER://0.0.0.0:9093, CONTROLLER://0.0.0.0:9094" + exposed}},
		"a controller name without a map": {[]string{"listeners=PLAINTEXT://127.0.0.1:1,CTRL://127.0.0.1:2", "controller.listener.names=ctrl"},
			"PLAINTEXT://127.0.0.1:1 -> 127.0.0.1:1\nCTRL://127.0.0.1:2 controller -> 127.0.0.1:2\n", nil},
		"other nodes' controllers": {[]string{"process.roles=broker", "controller.quorum.bootstrap.servers=a:1", "controller.listener.names=CONTROLLER", "listeners=PLAINTEXT://127.0.0.1:1"},
			"PLAINTEXT://127.0.0.1:1 -> 127.0.0.1:1\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, w, err := Load(Inputs{Overrides: c.settings, DataDir: "/data", Host: testHost})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan(s); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			equal(t, w.Notes, c.notes)
		})
	}
}

func TestListenersThatCannotBe(t *testing.T) {
	const tls = "and this version has listeners without TLS and SASL only (allowed: listeners with the protocol PLAINTEXT)"
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"listeners=PLAINTEXT//x"}, "Unable to parse a listener name from PLAINTEXT//x (allowed: NAME://host:port, ...)"},
		{[]string{"listeners=PLAINTEXT://x"}, "Unable to parse PLAINTEXT://x to a broker endpoint (allowed: NAME://host:port, ...)"},
		{[]string{"listeners=PLAINTEXT://x:70000"}, "Unable to parse PLAINTEXT://x:70000 to a broker endpoint (allowed: NAME://host:port, ...)"},
		{[]string{"listeners=PLAINTEXT://[x]:1"}, "Unable to parse PLAINTEXT://[x]:1 to a broker endpoint (allowed: NAME://host:port, ...)"},
		{[]string{"listeners=FOO://127.0.0.1:1"}, "No security protocol defined for listener FOO in listener.security.protocol.map"},
		{[]string{"listeners=SSL://127.0.0.1:1"}, "listener SSL asks for SSL, " + tls},
		{[]string{"listeners=A://127.0.0.1:1", "listener.security.protocol.map=A:SASL_PLAINTEXT"}, "listener A asks for SASL_PLAINTEXT, " + tls},
		{[]string{"listener.security.protocol.map=A:NOPE"}, "A:NOPE is no listener with its protocol (allowed: NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, ...)"},
		{[]string{"advertised.listeners=FOO://h:1"}, "there is no listener FOO in listeners (allowed: PLAINTEXT)"},
		{[]string{"advertised.listeners=PLAINTEXT://0.0.0.0:1"}, "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		{[]string{"advertised.listeners=PLAINTEXT://[::]:1"}, "advertised.listeners cannot use the nonroutable meta-address ::. Use a routable IP address."},
		{[]string{"advertised.listeners=PLAINTEXT://a:1,PLAINTEXT://b:1"}, "listener PLAINTEXT is advertised twice (allowed: one address a listener)"},
		{[]string{"inter.broker.listener.name=FOO"}, "there is no listener FOO in listeners (allowed: PLAINTEXT)"},
		{[]string{"security.inter.broker.protocol=SSL"}, "there is no listener SSL in listeners (allowed: PLAINTEXT)"},
		{[]string{"controller.listener.names=CONTROLLER"}, "there is no listener CONTROLLER in listeners (allowed: PLAINTEXT)"},
		{[]string{"process.roles=broker", "controller.quorum.bootstrap.servers=a:1", "controller.listener.names=PLAINTEXT"}, "listener PLAINTEXT must not be in listeners, since process.roles is broker alone"},
		{[]string{"controller.listener.names=PLAINTEXT"}, "There must be at least one listener for clients, and all of these appear in controller.listener.names"},
		{[]string{"listeners=PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.2:1"}, "Each listener must have a different name, and PLAINTEXT stands twice"},
		{[]string{"listeners=PLAINTEXT://127.0.0.1:1,A://:1", "listener.security.protocol.map=A:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
			"Each listener must have a different port, and PLAINTEXT and A both have 1"},
	} {
		_, _, err := Load(Inputs{Overrides: c.settings, DataDir: "/data", Host: testHost})
		if err == nil || !strings.HasSuffix(err.Error(), ": "+c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\n got %v\nwant ...: %s", c.settings, err, c.want)
		}
	}
}

func TestInterBrokerListener(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{nil, PeerListenerName},
		{[]string{"listeners=PLAINTEXT://:1,CONTROLLER://:2", "controller.listener.names=CONTROLLER"}, "PLAINTEXT"},
		{[]string{"listeners=CONTROLLER://:2", "controller.listener.names=CONTROLLER", "process.roles=controller"}, ""},
		{[]string{"inter.broker.listener.name=plaintext"}, "PLAINTEXT"},
		{[]string{"security.inter.broker.protocol=PLAINTEXT"}, "PLAINTEXT"},
	} {
		if got := load(t, c.settings...).InterBrokerListener; got != c.want {
			t.Errorf("%v: %q", c.settings, got)
		}
	}
}

func TestLocalHost(t *testing.T) {
	if h := LocalHost(); h.Name == "" {
		t.Error("the machine has no name")
	}
}
