// Package kgo runs the broker under franz-go, the client that most closely follows the protocol's newest versions.
package kgo

import (
	"os"
	"testing"

	"weir/compat-tests/harness"
)

// TestMain runs the cases or, as `kgo.test member BOOTSTRAP TOPIC GROUP`, a member of a group that a case can kill.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == memberCommand {
		runMember(os.Args[2], os.Args[3], os.Args[4])
	}
	harness.Main(m)
}
