// Package confluentkafka runs the broker under confluent-kafka, which is a current librdkafka for Python; suite.py holds
// the cases.
package confluentkafka

import (
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestSuite(t *testing.T) {
	python := harness.Python(t, "confluent-kafka")
	broker := harness.Shared(t)
	harness.RunCases(t, python, "suite.py", broker.Bootstrap)
}
