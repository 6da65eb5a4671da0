package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// Two of three nodes are lost with their disks. The third is made to go on alone, two new ones join it, and what was acknowledged is
// there, replicated as before: by the commands that an operator has, in the order in which they are told of.
func TestRecoverLostMajority(t *testing.T) {
	const records = 1000
	c := harness.StartCluster(t, harness.ClusterOptions{})
	topic, left := harness.TopicName(t), c.Node(3)
	c.CreateTopic(t, topic, 3, 3, "min.insync.replicas", "2")
	client := c.ClusterClient(t, kgo.RequiredAcks(kgo.AllISRAcks()))
	var written []*kgo.Record
	for i := range records {
		written = append(written, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, "record ", i)})
	}
	if err := client.ProduceSync(harness.Context(t), written...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.AwaitISRs(t)
	dataDir := dataDirOf(t, left)
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	weir := func(args ...string) string {
		t.Helper()
		return harness.MustRun(t, "", binary, args...)
	}

	if r := harness.Run(t, "", binary, "quorum", "recover", "--data-dir", dataDir, "--force"); r.Code != 1 || !strings.Contains(r.Stderr, "runs: stop it first") {
		t.Errorf("a node that runs: %+v", r)
	}
	c.Kill(1, 2, 3) // a node that is stopped in good order just then may still give its partitions to the others
	c.Wipe(1)
	c.Wipe(2)
	if plan := weir("quorum", "recover", "--data-dir", dataDir); !strings.Contains(plan, "Nothing was changed.") {
		t.Error(plan)
	}
	weir("quorum", "recover", "--data-dir", dataDir, "--force")
	c.Restart(3)
	c.Join()
	c.Join()
	for _, gone := range []string{"1", "2"} {
		weir("cluster", "drain", gone, "-b", left.Bootstrap)
		weir("cluster", "remove", gone, "-b", left.Bootstrap)
	}
	weir("cluster", "wait-healthy", "--nodes", "3", "--limit", "30s", "-b", left.Bootstrap)
	weir("topic", "alter-replication", topic, "-r", "2", "-b", left.Bootstrap)
	weir("topic", "alter-replication", topic, "-r", "3", "-b", left.Bootstrap)
	weir("topic", "elect-leaders", topic, "-b", left.Bootstrap)
	await(t, func() string { // a broker that is asked may be behind
		leads := make(map[int]bool)
		for p := range int32(3) {
			leads[c.Leader(t, topic, p)] = true
		}
		if len(leads) != 3 {
			return fmt.Sprintf("leaders of three partitions: %v", leads)
		}
		return ""
	})

	more := &kgo.Record{Topic: topic, Key: []byte("more"), Value: []byte("record more")}
	again := c.ClusterClient(t, kgo.SeedBrokers(left.Bootstrap), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err := again.ProduceSync(harness.Context(t), more).FirstErr(); err != nil {
		t.Error(err)
	}
	read := make(map[string]int)
	for _, line := range strings.Fields(weir("consume", topic, "-b", left.Bootstrap, "--exit", "-f", `%k\n`)) {
		read[line]++
	}
	for _, r := range append(written, more) {
		if read[string(r.Key)] != 1 {
			t.Errorf("%s is there %d times", r.Value, read[string(r.Key)])
		}
	}
}

// dataDirOf asks a node which directory it has.
func dataDirOf(t *testing.T, n *harness.ClusterNode) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dirs, err := kadm.NewClient(client).DescribeBrokerLogDirs(harness.Context(t), int32(n.ID), nil)
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v", dirs, err)
	}
	return dirs.Sorted()[0].Dir
}
