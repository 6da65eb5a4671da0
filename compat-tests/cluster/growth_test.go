package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"weir/compat-tests/harness"
)

// growth is a cluster that began with one node, while it is written to.
type growth struct {
	*testing.T
	*harness.Cluster
	began time.Time
	loads []*harness.Load
}

// step does something with the cluster, and goes on when the loads do.
func (g *growth) step(what string, do func()) {
	g.Helper()
	began := time.Now()
	do()
	took := time.Since(began)
	for _, l := range g.loads {
		l.AwaitAcks(g.T, someAcks)
	}
	figure(g.T, "%s: %v; written on %v later", what, took.Round(10*time.Millisecond), (time.Since(began) - took).Round(10*time.Millisecond))
}

// replicate gives each partition of the loads' topics three replicas, and asks acknowledgements to be two nodes' from then on.
func (g *growth) replicate(nodes ...int32) {
	g.Helper()
	admin := kadm.NewClient(g.ClusterClient(g.T))
	var req kadm.AlterPartitionAssignmentsReq
	var topics []string
	for _, l := range g.loads {
		topics = append(topics, l.Name)
		for p := range partitions {
			req.Assign(l.Name, int32(p), []int32{nodes[p%3], nodes[(p+1)%3], nodes[(p+2)%3]})
		}
	}
	resp, err := admin.AlterPartitionAssignments(harness.Context(g.T), req)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		g.Fatal(err)
	}
	await(g.T, func() string {
		metadata, err := admin.Metadata(harness.Context(g.T), topics...)
		if err != nil {
			return err.Error()
		}
		for topic, replicas := range req {
			for p, want := range replicas {
				if got := metadata.Topics[topic].Partitions[p]; !slices.Equal(got.Replicas, want) || !slices.Equal(sorted(got.ISR), sorted(want)) {
					return fmt.Sprintf("%s-%d has replicas %v, ISR %v", topic, p, got.Replicas, got.ISR)
				}
			}
		}
		return ""
	})
	two := "2"
	altered, err := admin.AlterTopicConfigs(harness.Context(g.T), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: &two}}, topics...)
	for _, a := range altered {
		if err == nil {
			err = a.Err
		}
	}
	if err != nil {
		g.Fatal(err)
	}
}

// voters returns when those vote in the quorum, and nobody else.
func (g *growth) voters(ids ...int) {
	g.Helper()
	await(g.T, func() string {
		if got := g.Voters(g.T); !slices.Equal(got, ids) {
			return fmt.Sprintf("the voters are %v, not %v", got, ids)
		}
		return ""
	})
}

// weir has the program do something with the cluster. All addresses are named, also those of nodes that are gone.
func weir(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return harness.MustRun(t, "", binary, append(args, "-b", strings.Join(c.Bootstrap(), ","))...)
}

// awaitState returns when other nodes say that a node is up, fenced or unregistered.
func (r *run) awaitState(id int, state string, through ...int) {
	r.Helper()
	binary, err := harness.Binary()
	if err != nil {
		r.Fatal(err)
	}
	var bootstrap []string
	for _, n := range through {
		bootstrap = append(bootstrap, r.Node(n).Bootstrap)
	}
	await(r.T, func() string {
		result := harness.Run(r.T, "", binary, "cluster", "nodes", "-o", "json", "-b", strings.Join(bootstrap, ","))
		for line := range strings.Lines(result.Stdout) {
			var n struct {
				Node  int
				State string
			}
			if err := json.Unmarshal([]byte(line), &n); err != nil {
				return err.Error()
			}
			if n.Node == id && n.State == state {
				return ""
			}
		}
		return fmt.Sprintf("node %d is not %s:\n%s%s", id, state, result.Stdout, result.Stderr)
	})
}

// await returns when nothing is missing any more.
func await(t *testing.T, missing func() string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

// One node becomes three while it is written to, and then its records are on all of them.
func TestGrowsUnderLoad(t *testing.T) {
	g := startGrowth(t, "kgo")
	g.loads = []*harness.Load{harness.StartKgo(t, g.Cluster, "kgo", partitions)}
	g.grow()
	g.finish()
}

// One node becomes three and five; the first one dies, another takes its place, and the dead one is taken out.
func TestGrowsAndReplacesUnderLoad(t *testing.T) {
	if !harness.Soak() {
		t.Skip("takes long: only in `make soak`")
	}
	g := startGrowth(t, "kgo", "librdkafka")
	python := harness.Python(t, "confluent-kafka") // the same packages
	g.loads = []*harness.Load{harness.StartKgo(t, g.Cluster, "kgo", partitions), harness.StartLibrdkafka(t, g.Cluster, python, "load.py", "librdkafka", partitions)}
	g.grow()
	g.step("three vote", func() { g.voters(1, 2, 3) })
	g.step("the fourth and the fifth join", func() {
		g.Join()
		g.Join()
	})
	g.step("five vote", func() { g.voters(1, 2, 3, 4, 5) })
	g.step("one that joined is killed, and started by the same command", func() {
		g.Kill(4)
		g.Restart(4)
	})
	g.step("the first one dies", func() { g.Kill(1) })
	g.step("the sixth joins", func() { g.Join() })
	g.step("the dead one is drained", func() { weir(t, g.Cluster, "cluster", "drain", "1") })
	g.step("and removed", func() { weir(t, g.Cluster, "cluster", "remove", "1") })
	g.step("it is not let in again", func() {
		if said := g.RestartInVain(1); !strings.Contains(said, "Node 1 was removed from the cluster with directory ") {
			t.Errorf("it says:\n%s", said)
		}
	})
	g.step("all is healthy", func() { weir(t, g.Cluster, "cluster", "wait-healthy", "--nodes", "5", "--limit", "1m") })
	g.step("five vote", func() { g.voters(2, 3, 4, 5, 6) })
	g.finish()
}

// lead has everybody lead what it is preferred for. It tells clients too who there is: one that asks for metadata every five
// minutes, and knows only a node that dies, finds nobody.
func (g *growth) lead() {
	g.Helper()
	results, err := kadm.NewClient(g.ClusterClient(g.T)).ElectLeaders(harness.Context(g.T), kadm.ElectPreferredReplica, nil)
	if err != nil {
		g.Fatal(err)
	}
	for _, topic := range results {
		for _, p := range topic {
			if p.Err != nil && !errors.Is(p.Err, kerr.ElectionNotNeeded) {
				g.Errorf("%s-%d: %v", p.Topic, p.Partition, p.Err)
			}
		}
	}
}

// startGrowth starts the node that is alone.
func startGrowth(t *testing.T, topics ...string) *growth {
	t.Helper()
	g := &growth{T: t, Cluster: harness.StartCluster(t, harness.ClusterOptions{Alone: true}), began: time.Now()}
	for _, topic := range topics {
		g.CreateTopic(t, topic, partitions, 1)
	}
	return g
}

// grow makes three nodes of one.
func (g *growth) grow() {
	g.Helper()
	g.step("one node", func() {})
	g.step("two more join", func() {
		g.Join()
		g.Join()
	})
	g.step("three replicas", func() { g.replicate(1, 2, 3) })
	g.step("all lead", g.lead)
}

func (g *growth) finish() {
	g.Helper()
	line := fmt.Sprint("took ", time.Since(g.began).Round(100*time.Millisecond))
	for _, l := range g.loads {
		line += fmt.Sprintf("; %s: %v", l.Name, l.Finish(g.T, g.Cluster))
	}
	figure(g.T, "%s", line)
}
