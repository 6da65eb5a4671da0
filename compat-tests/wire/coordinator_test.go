package wire

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// The coordinator of a group is where clients connect to next. It is asked for by one key or by many, the version decides.
func TestFindCoordinator(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	c := dial(t, address)
	var first *kmsg.FindCoordinatorResponse
	for version := range int16(4) {
		for range 2 {
			resp := ask(t, c, at(version, findCoordinator(0, group)))
			wantCode(t, "FindCoordinator", resp.ErrorCode, nil)
			if first == nil {
				first = resp
			}
			if resp.NodeID != first.NodeID || resp.Host != first.Host || resp.Port != first.Port || len(resp.Coordinators) != 0 {
				t.Errorf("version %d: %d at %s:%d, version 0 said %d at %s:%d", version, resp.NodeID, resp.Host, resp.Port, first.NodeID, first.Host, first.Port)
			}
		}
	}
	coordinate(t, net.JoinHostPort(first.Host, strconv.Itoa(int(first.Port))), group)

	for version := int16(4); version <= 6; version++ {
		keys := []string{group, "another one", ""}
		rows := ask(t, c, at(version, findCoordinator(0, keys...))).Coordinators
		if len(rows) != len(keys) {
			t.Fatalf("version %d: %d rows for %d keys", version, len(rows), len(keys))
		}
		for i, row := range rows {
			wantCode(t, "FindCoordinator of "+keys[i], row.ErrorCode, nil)
			if row.Key != keys[i] || row.NodeID != first.NodeID || row.Host != first.Host || row.Port != first.Port {
				t.Errorf("version %d: the row of %q is %+v", version, keys[i], row)
			}
		}
		if rows := ask(t, c, at(version, findCoordinator(0))).Coordinators; len(rows) != 0 {
			t.Errorf("version %d: %d rows for no key", version, len(rows))
		}
		row := ask(t, c, at(version, findCoordinator(9, "a"))).Coordinators[0]
		wantCode(t, "a kind that is not there", row.ErrorCode, kerr.InvalidRequest)
		if row.NodeID != -1 || row.Port != -1 || row.Host != "" {
			t.Errorf("version %d: a coordinator of a kind that is not there is %+v", version, row)
		}
	}
	resp := ask(t, c, at(1, findCoordinator(9, "a")))
	wantCode(t, "a kind that is not there", resp.ErrorCode, kerr.InvalidRequest)
	if resp.NodeID != -1 || resp.Port != -1 || resp.Host != "" {
		t.Errorf("a coordinator of a kind that is not there is %+v", resp)
	}
}

// Within a container network a broker has another address than outside. Every answer that sends a client somewhere names
// the address of the listener that it came by.
func TestEachListenerSendsItsClientsToItself(t *testing.T) {
	s := prepare(t, filepath.Join(t.TempDir(), "data"),
		"--override", "advertised.listeners=PLAINTEXT://a.test:1,OUTSIDE://b.test:2",
		"--override", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT")
	s.options.Listen = "127.0.0.1:0,OUTSIDE://127.0.0.1:0"
	s.restart(t)
	for name, want := range map[string]identity{"PLAINTEXT": {host: "a.test", port: 1}, "OUTSIDE": {host: "b.test", port: 2}} {
		address := s.Listeners[name]
		if got := identify(t, address); got.host != want.host || got.port != want.port {
			t.Errorf("%s: Metadata and DescribeCluster say %s", name, got.address())
		}
		coordinate(t, address, "a")
		c := dial(t, address)
		if resp := ask(t, c, at(3, findCoordinator(0, "a"))); resp.Host != want.host || resp.Port != want.port {
			t.Errorf("%s: FindCoordinator v3 says %s:%d", name, resp.Host, resp.Port)
		}
		if row := ask(t, c, at(4, findCoordinator(0, "a"))).Coordinators[0]; row.Host != want.host || row.Port != want.port {
			t.Errorf("%s: FindCoordinator v4 says %s:%d", name, row.Host, row.Port)
		}
	}
}
