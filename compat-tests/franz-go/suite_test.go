// Package franzgo runs franz-go's own tests of its client against the broker, those that need one, and compares them with
// what they reach on Apache Kafka. Which version: that of the module.
//
// baseline.tsv was measured on Kafka 4.4.0, one node, PLAINTEXT, with the settings below. After a new version of the client
// it is measured anew: the tests that need a broker are those that fail where there is none.
package franzgo

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const clientPackage = "github.com/twmb/franz-go/pkg/kgo"

func TestSuite(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	runSuite(t, broker, broker.Bootstrap, 1)
}

// The same on a cluster of three, where every topic has a replica on each: what is asked of a broker may be another one's to
// answer.
func TestSuiteOnCluster(t *testing.T) {
	cluster := harness.StartCluster(t, harness.ClusterOptions{})
	seeds := cluster.Bootstrap()
	runSuite(t, &harness.Broker{Bootstrap: seeds[0]}, strings.Join(seeds, ","), len(seeds))
}

// runSuite runs the tests against a broker, or the cluster that it belongs to, with topics of so many replicas.
func runSuite(t *testing.T, broker *harness.Broker, seeds string, replicas int) {
	t.Setenv("KGO_SEEDS", seeds)
	t.Setenv("KGO_TEST_RF", strconv.Itoa(replicas))
	t.Setenv("KGO_LOG_LEVEL", "none")
	t.Setenv("KGO_TEST_RECORDS", "50000") // that each test of a pipeline passes on
	names := make(map[string]bool)
	transactions := broker.Offers(t, kmsg.EndTxn)
	for name := range harness.ReadBaseline(t) {
		top, _, _ := strings.Cut(name, "/")
		if transactions || !strings.HasPrefix(top, "TestTxn") { // without them the client asks until the time is over
			names[top] = true
		}
	}
	run := "^(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$"
	// Most of the time the tests wait.
	harness.CompareBaseline(t, goTest(t, "-parallel=8", "-run", run), false)
}

// goTest runs the client's tests and returns how each ended. A test that still runs at the time limit has failed.
func goTest(t *testing.T, args ...string) map[string]harness.Foreign {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1", "-timeout=10m", clientPackage}, args...)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	results := make(map[string]harness.Foreign)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // the command has ended
		}
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		result := results[e.Test]
		switch e.Action {
		case "run":
			result.Outcome = "fail"
		case "pass", "fail", "skip":
			result.Outcome = e.Action
		case "output":
			result.Output += e.Output
		}
		results[e.Test] = result
	}
	exit := cmd.Wait()
	whole := results[""]
	delete(results, "")
	if len(results) == 0 {
		t.Fatalf("%v\n%s%s", exit, problems.String(), whole.Output)
	}
	return results
}
