package config

import (
	"reflect"
	"testing"
)

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

var testHost = Host{Name: "box.test", IPv6Loopback: true}

// load makes a server of settings given as name=value; none of them may be wrong.
func load(t *testing.T, overrides ...string) *Server {
	t.Helper()
	s, _, err := Load(Inputs{Overrides: overrides, DataDir: "/data", Host: testHost})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
