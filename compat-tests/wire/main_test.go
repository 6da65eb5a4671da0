// Package wire sends the broker raw requests, byte for byte as a case wants them, and looks at the bytes that come back.
//
// The cases are what users of Kafka-compatible brokers reported over the years: answers that clients trip over, hostile
// bytes, crashes, and what an operator meets at a start or a stop. Most run against any broker (WEIR_COMPAT_BOOTSTRAP);
// those that start, kill or measure a broker need Weir's binary.
package wire

import (
	"flag"
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) {
	// Cases that run in parallel are those that wait, for sessions to end and the like.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	harness.Main(m)
}
