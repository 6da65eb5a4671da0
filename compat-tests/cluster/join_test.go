package cluster

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// A node that was started without a thought becomes a cluster of three by two more commands. No id is handed out, and none has
// to be said again.
func TestJoin(t *testing.T) {
	first := harness.Start(t)
	second := harness.Start(t, "--join", first.Bootstrap)
	third := harness.Start(t, "--join", "127.0.0.1:1,"+second.Bootstrap)
	nodes := []*harness.Broker{first, second, third}
	for _, b := range nodes {
		if got, want := brokers(t, b), addresses(nodes...); !slices.Equal(got, want) {
			t.Fatalf("%s knows the brokers %v, want %v", b.Bootstrap, got, want)
		}
	}
	before := idOf(t, third)
	topic := harness.TopicName(t)
	created, err := third.Admin(t).CreateTopic(harness.Context(t), 3, 3, nil, topic)
	if err != nil || created.Err != nil {
		t.Fatal(err, created.Err)
	}
	if _, err := first.Client(t, kgo.RequiredAcks(kgo.AllISRAcks())).ProduceSync(harness.Context(t), &kgo.Record{Topic: topic, Value: []byte("v")}).First(); err != nil {
		t.Fatal(err)
	}
	third.Stop(t)
	third.Restart(t)
	if id := idOf(t, third); id != before {
		t.Errorf("node %d came back as node %d", before, id)
	}
	if records := third.ReadAll(t, topic); len(records) != 1 {
		t.Errorf("%d records", len(records))
	}
}

// What contradicts itself ends the start at once with the exit code of a wrong command line.
func TestJoinRefused(t *testing.T) {
	first, other := harness.Start(t), harness.Start(t)
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	member := harness.Start(t, "--join", first.Bootstrap)
	member.Stop(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an id that is in use":     {[]string{"--join", first.Bootstrap, "--override", "node.id=1"}, "Node 1 of this cluster is " + first.Bootstrap},
		"a node of another one":    {[]string{"--join", other.Bootstrap, "--data-dir", member.DataDir()}, "only a node without data joins a cluster"},
		"an address that is wrong": {[]string{"--join", "localhost"}, "weir.join=localhost: not an address of a node"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, c.args...)
			out, err := exec.CommandContext(harness.Context(t), binary, args...).CombinedOutput()
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// brokers are the addresses that a broker tells clients.
func brokers(t *testing.T, b *harness.Broker) (all []string) {
	t.Helper()
	m, err := b.Admin(t).BrokerMetadata(harness.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Brokers {
		all = append(all, fmt.Sprintf("%s:%d", d.Host, d.Port))
	}
	slices.Sort(all)
	return all
}

func addresses(nodes ...*harness.Broker) (all []string) {
	for _, b := range nodes {
		all = append(all, b.Bootstrap)
	}
	slices.Sort(all)
	return all
}

// idOf is the id of the node at a broker's address.
func idOf(t *testing.T, b *harness.Broker) int32 {
	t.Helper()
	m, err := b.Admin(t).BrokerMetadata(harness.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Brokers {
		if fmt.Sprintf("%s:%d", d.Host, d.Port) == b.Bootstrap {
			return d.NodeID
		}
	}
	t.Fatalf("%s is not among the brokers", b.Bootstrap)
	return 0
}
