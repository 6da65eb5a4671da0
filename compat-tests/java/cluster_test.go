package java

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/compat-tests/harness"
)

// quorumFields are what kafka-metadata-quorum prints of the quorum, by name.
var quorumFields = regexp.MustCompile(`(?m)^(\w+): +(.*)$`)

// describeQuorum asks a node who leads the metadata log and who follows.
func (k tools) describeQuorum(t *testing.T, n *harness.ClusterNode) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for _, match := range quorumFields.FindAllStringSubmatch(k.must(t, "", "MetadataQuorumCommand", "--bootstrap-server", n.Bootstrap, "describe", "--status"), -1) {
		fields[match[1]] = match[2]
	}
	return fields
}

// The tools of a cluster work with whichever node they are given.
func TestClusterOfThree(t *testing.T) {
	kafka := newTools(t)
	cluster := harness.StartCluster(t, harness.ClusterOptions{})
	t.Run("quorum", func(t *testing.T) {
		var leader string
		for _, n := range cluster.Nodes() {
			fields := kafka.describeQuorum(t, n)
			if leader == "" {
				leader = fields["LeaderId"]
			}
			if fields["LeaderId"] != leader || strings.Count(fields["CurrentVoters"], `"directoryId"`) != 3 || fields["CurrentObservers"] != "[]" {
				t.Errorf("node %d says %v, and the first that %s leads", n.ID, fields, leader)
			}
			var rows [][]string
			out := kafka.must(t, "", "MetadataQuorumCommand", "--bootstrap-server", n.Bootstrap, "describe", "--replication")
			for line := range strings.Lines(out) {
				rows = append(rows, strings.Fields(line))
			}
			if len(rows) != 4 || rows[1][0] != leader || rows[1][6] != "Leader" || rows[2][6] != "Follower" || rows[3][6] != "Follower" {
				t.Errorf("node %d says:\n%s", n.ID, out)
			}
		}
	})

	topic := harness.TopicName(t)
	cluster.CreateTopic(t, topic, 1, 3)
	dead := cluster.Leader(t, topic, 0)
	alive := cluster.Others(dead)
	through := func(id int) []string { return []string{"--bootstrap-server", cluster.Node(id).Bootstrap} }
	elect := func(t *testing.T) harness.Result {
		return kafka.run(t, "", "LeaderElectionCommand", append(through(alive[0]), "--election-type", "preferred", "--topic", topic, "--partition", "0")...)
	}
	all := []string{"--bootstrap-server", strings.Join(cluster.Bootstrap(), ",")}
	t.Run("produce", func(t *testing.T) {
		kafka.must(t, "1\n2\n3\n", "ConsoleProducer", append(all, "--topic", topic)...)
	})

	cluster.Kill(dead)
	t.Run("produce while a node is away", func(t *testing.T) {
		kafka.must(t, "4\n5\n", "ConsoleProducer", append(all, "--topic", topic)...)
	})
	t.Run("describe while a node is away", func(t *testing.T) {
		out := kafka.must(t, "", "TopicCommand", append(through(alive[1]), "--describe", "--topic", topic, "--under-replicated-partitions")...)
		isr := regexp.MustCompile(`Isr: ([\d,]+)`).FindStringSubmatch(out)
		if isr == nil || strings.Contains(isr[1], fmt.Sprint(dead)) || strings.Count(isr[1], ",") != 1 {
			t.Errorf("without node %d:\n%s", dead, out)
		}
		if out := kafka.must(t, "", "TopicCommand", append(through(alive[1]), "--describe", "--topic", topic, "--unavailable-partitions")...); out != "\n" && out != "" {
			t.Errorf("it is led by another:\n%s", out)
		}
		if got := kafka.describeQuorum(t, cluster.Node(alive[1]))["LeaderId"]; got == fmt.Sprint(dead) {
			t.Errorf("node %s is gone, and leads the metadata log", got)
		}
	})
	t.Run("elect who is away", func(t *testing.T) {
		if r := elect(t); r.Code == 0 || !strings.Contains(r.Stderr, "PreferredLeaderNotAvailableException: The preferred leader was not available.") {
			t.Errorf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})

	cluster.Restart(dead)
	cluster.AwaitISRs(t, topic)
	t.Run("elect who is back", func(t *testing.T) {
		for _, want := range []string{"Successfully completed leader election (PREFERRED) for partitions ", "Valid replica already elected for partitions "} {
			if r := elect(t); r.Code != 0 || !strings.Contains(r.Stdout, want+topic+"-0") {
				t.Errorf("exit %d, want %s\n%s%s", r.Code, want, r.Stdout, r.Stderr)
			}
		}
	})
	t.Run("consume", func(t *testing.T) {
		got := strings.Fields(kafka.must(t, "", "consumer.ConsoleConsumer", append(through(dead), "--topic", topic, "--from-beginning", "--max-messages", "5", "--timeout-ms", "30000")...))
		if want := []string{"1", "2", "3", "4", "5"}; !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
	})
}
