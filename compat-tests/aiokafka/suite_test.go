// Package aiokafka runs the broker under aiokafka, a client for asyncio; suite.py is its side of
// harness/python/checks.py.
package aiokafka

import (
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestSuite(t *testing.T) { harness.RunPythonClient(t, "aiokafka") }
