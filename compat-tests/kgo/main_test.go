// Package kgo runs the broker under franz-go, the client that most closely follows the protocol's newest versions.
package kgo

import (
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
