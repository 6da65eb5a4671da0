// Package confluentkafka runs the broker under confluent-kafka, which is a current librdkafka for Python; suite.py is its
// side of harness/python/checks.py.
package confluentkafka

import (
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestSuite(t *testing.T) { harness.RunPythonClient(t, "confluent-kafka") }
