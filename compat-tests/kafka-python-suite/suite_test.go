// Package kafkapythonsuite runs kafka-python's own integration tests, as its source archive has them, and compares them
// with what they reach on Apache Kafka. Those of SASL and SSL are left out: they start brokers of their own.
//
// A broker of the user's needs the settings below, node.id included.
package kafkapythonsuite

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

var files = []string{"test_admin_integration", "test_consumer_integration", "test_producer_integration"}

func TestSuite(t *testing.T) {
	python := harness.Python(t, "kafka-python-suite")
	source := fetchSource(t, python)
	broker := broker(t)
	broker.RequireGroups(t)
	harness.CompareBaseline(t, runTests(t, python, source, slowDoor(t, broker.Bootstrap)), false)
}

// broker starts a broker as the tests want it.
func broker(t *testing.T) *harness.Broker {
	t.Helper()
	if harness.External() != "" {
		return harness.Shared(t)
	}
	address, err := harness.FixedPort()
	if err != nil {
		t.Fatal(err)
	}
	return harness.Start(t, "--listen", address,
		"--override", "advertised.listeners=PLAINTEXT://"+address, // a test wants it to be set
		"--override", "node.id=0", // tests place partitions on node 0
		"--override", "num.partitions=4",
		"--override", "offsets.topic.num.partitions=2",
		"--override", "group.initial.rebalance.delay.ms=0",
		"--override", "group.min.session.timeout.ms=1000", // a test asks for a session of three seconds
	)
}

// fetchSource unpacks the source archive that source.txt names, once, and adds what it lacks.
func fetchSource(t *testing.T, python string) string {
	t.Helper()
	wanted, err := os.ReadFile("source.txt")
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(string(wanted), " ")
	dir, err := harness.BuildDir("kafka-python-suite", "source-"+name)
	if err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err != nil {
		// Without build isolation: the archive is asked for its name, and what that needs is installed.
		r := harness.Run(t, "", python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
			"--no-binary=:all:", "--no-build-isolation", "--dest", dir, "-r", "source.txt")
		if r.Code != 0 {
			t.Skipf("pip could not download %s:\n%s", name, r.Stderr)
		}
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
		if err != nil || len(archives) != 1 {
			t.Fatalf("pip downloaded %q; %v", archives, err)
		}
		harness.MustRun(t, "", python, "-m", "tarfile", "-e", archives[0], dir)
	}
	tests, err := filepath.Glob(filepath.Join(dir, "*", "test", "integration"))
	if err != nil || len(tests) != 1 {
		t.Fatalf("the archive has no tests: %q; %v", tests, err)
	}
	source := filepath.Dir(filepath.Dir(tests[0]))
	stub, err := os.ReadFile(filepath.Join("stub", "service.py"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		filepath.Join(source, "test", "service.py"):  stub,
		filepath.Join(source, "test", "__init__.py"): nil, // or Python's own package test is found first
		ready: nil,
	} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return source
}

// slowDoor returns an address that leads to the broker after the time that a packet takes in a real network. kafka-python
// forgets a subscription that is made while its first look at the cluster is under way (ClusterMetadata.update_metadata
// takes the answer to the earlier question for the answer to the later one) and looks again after five minutes. On
// loopback the answer comes just while a test subscribes; through this door it comes later. Only the first connection of a
// client goes through it.
func slowDoor(t *testing.T, broker string) string {
	t.Helper()
	const delay = 50 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			time.AfterFunc(delay, func() { join(client, broker) })
		}
	}()
	return l.Addr().String()
}

// join copies both ways until either end closes.
func join(client net.Conn, broker string) {
	defer client.Close()
	server, err := net.Dial("tcp", broker)
	if err != nil {
		return // the client sees its connection closed
	}
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// runTests runs the tests and returns how each ended.
func runTests(t *testing.T, python, source, address string) map[string]harness.Foreign {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	report := filepath.Join(t.TempDir(), "report.xml")
	args := []string{"-m", "pytest", "-q", "--timeout=60", "--timeout-method=signal", "--show-capture=no",
		"-o", "junit_logging=no", "--junitxml=" + report}
	for _, file := range files {
		args = append(args, filepath.Join("test", "integration", file+".py"))
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "KAFKA_URI=kafka://"+address, "KAFKA_VERSION=4.4.0",
		"KAFKA_ROOT="+source) // has to exist, and is not looked into
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("pytest did not end: %v\n%.8000s", err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("pytest reported nothing: %v\n%.8000s", err, out)
	}
	var suites struct {
		Cases []struct {
			Class   string  `xml:"classname,attr"`
			Name    string  `xml:"name,attr"`
			Failure *string `xml:"failure"`
			Error   *string `xml:"error"`
			Skipped *string `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]harness.Foreign)
	for _, c := range suites.Cases {
		name := c.Class[strings.LastIndexByte(c.Class, '.')+1:] + "::" + c.Name
		result := harness.Foreign{Outcome: "pass"}
		switch {
		case c.Failure != nil:
			result = harness.Foreign{Outcome: "fail", Output: *c.Failure}
		case c.Error != nil:
			result = harness.Foreign{Outcome: "fail", Output: *c.Error}
		case c.Skipped != nil:
			result.Outcome = "skip"
		}
		got[name] = result
	}
	return got
}
