// Package cluster runs clusters of real brokers while nodes are killed, stopped, paused, cut off and wiped under load, and
// counts what was acknowledged, what of it is lost or there twice, and how long nothing was acknowledged.
package cluster

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	partitions = 3
	// someAcks are so many acknowledgements of each partition that a load is seen to flow.
	someAcks = 300
)

// scenario is what happens to a cluster under load.
type scenario struct {
	soak    bool // takes long: only in the long form
	options harness.ClusterOptions
	// do breaks something, waits while the load goes on as far as it can, and heals it.
	do func(r *run)
}

// run is a scenario under way.
type run struct {
	*testing.T
	*harness.Cluster
	leader, controller int // node ids: of the leader of the loads' first partitions, and of the active controller
	other              int // a leader that is not the active controller
	loads              []*harness.Load
}

// flows returns when every load is acknowledged in every partition.
func (r *run) flows() {
	r.Helper()
	for _, l := range r.loads {
		l.AwaitAcks(r.T, someAcks)
	}
}

// all is every node.
func (r *run) all() (ids []int) {
	for _, n := range r.Nodes() {
		ids = append(ids, n.ID)
	}
	return ids
}

// reign says of the quorum and of each partition who leads it in which epoch, and who is in sync.
func (r *run) reign() []string {
	r.Helper()
	q := r.Quorum(r.T)
	all := []string{fmt.Sprintf("the quorum is led by %d in epoch %d", q.LeaderID, q.LeaderEpoch)}
	metadata, err := kadm.NewClient(r.ClusterClient(r.T)).Metadata(harness.Context(r.T))
	if err != nil {
		r.Fatal(err)
	}
	for _, topic := range metadata.Topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			all = append(all, fmt.Sprintf("%s-%d is led by %d in epoch %d, ISR %v", p.Topic, p.Partition, p.Leader, p.LeaderEpoch, sorted(p.ISR)))
		}
	}
	return all
}

// gossip returns when every node hears so many by gossip, itself included.
func (r *run) gossip(heard int) {
	r.Helper()
	want := fmt.Sprint("weir_gossip_members ", heard)
	for _, n := range r.Nodes() {
		await(r.T, func() string {
			response, err := http.Get(fmt.Sprintf("http://%s:%d/metrics", n.IP, metricsPort))
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			for lines := bufio.NewScanner(response.Body); lines.Scan(); {
				if text := lines.Text(); strings.HasPrefix(text, "weir_gossip_members ") && text != want {
					return fmt.Sprintf("node %d: %s, not %d", n.ID, text, heard)
				} else if text == want {
					return ""
				}
			}
			return "it is not among the metrics"
		})
	}
}

const (
	namespaces  = true
	ackPolicy   = "weir.fsync.policy=ack"
	metricsPort = 9300
)

// observed are clusters whose links can be cut, and which tell what they hear.
var observed = harness.ClusterOptions{Namespaces: namespaces, Args: []string{"--http", fmt.Sprint("0.0.0.0:", metricsPort)}}

var scenarios = map[string]scenario{
	"kill_the_leader": {do: func(r *run) {
		r.Kill(r.leader)
		r.flows()
		r.Restart(r.leader)
	}},
	"kill_the_controller": {do: func(r *run) {
		r.Kill(r.controller)
		r.flows()
		r.Restart(r.controller)
	}},
	"stop_gracefully": {do: func(r *run) {
		r.Stop(r.controller)
		r.flows()
		r.Restart(r.controller)
	}},
	"pause_the_leader": {do: func(r *run) {
		r.Pause(r.leader)
		time.Sleep(15 * time.Second)
		r.Resume(r.leader)
	}},
	"kill_all": {soak: true, do: func(r *run) {
		r.Kill(1, 2, 3)
		r.Restart(1, 2, 3)
	}},
	"isolate_the_leader": {soak: true, options: harness.ClusterOptions{Namespaces: namespaces}, do: func(r *run) {
		r.CutBoth([]int{r.leader}, r.Others(r.leader))
		time.Sleep(15 * time.Second)
		r.Heal()
	}},
	"leader_hears_nobody": {soak: true, options: harness.ClusterOptions{Namespaces: namespaces}, do: func(r *run) {
		r.Cut(r.Others(r.leader), []int{r.leader})
		time.Sleep(15 * time.Second)
		r.Heal()
	}},
	"nobody_hears_the_leader": {soak: true, options: harness.ClusterOptions{Namespaces: namespaces}, do: func(r *run) {
		r.Cut([]int{r.leader}, r.Others(r.leader))
		time.Sleep(15 * time.Second)
		r.Heal()
	}},
	"cut_leader_from_controller": {soak: true, options: harness.ClusterOptions{Namespaces: namespaces}, do: func(r *run) {
		r.CutBoth([]int{r.other}, []int{r.controller})
		time.Sleep(15 * time.Second)
		r.Heal()
	}},
	// Gossip is a hint: without it nothing happens that would not happen otherwise.
	"cut_gossip": {soak: true, options: observed, do: func(r *run) {
		before := r.reign()
		began := time.Now()
		r.CutGossip(r.all(), r.all())
		r.gossip(1)
		silent := time.Since(began)
		time.Sleep(20*time.Second - silent)
		r.flows()
		if after := r.reign(); !slices.Equal(before, after) {
			r.Errorf("who leads, and since when:\n%v\nbefore gossip was cut:\n%v", after, before)
		}
		r.Heal()
		began = time.Now()
		r.gossip(3)
		figure(r.T, "nobody was heard after %v, and all %v after gossip was healed", silent.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
	}},
	// Nor does it keep anybody's session alive.
	"cut_all_but_gossip": {soak: true, options: observed, do: func(r *run) {
		others := r.Others(r.leader)
		began := time.Now()
		r.CutAllButGossip([]int{r.leader}, others)
		r.awaitState(r.leader, "fenced", others...)
		figure(r.T, "fenced %v after it was cut off", time.Since(began).Round(100*time.Millisecond))
		time.Sleep(15*time.Second - time.Since(began))
		r.gossip(3)
		r.Heal()
	}},
	"bridge": {soak: true, options: harness.ClusterOptions{Namespaces: namespaces}, do: func(r *run) {
		sides := r.Others(r.controller)
		r.CutBoth(sides[:1], sides[1:])
		time.Sleep(20 * time.Second)
		r.Heal()
	}},
	// Each sees a majority of the nodes, and no two the same one.
	"majority_ring": {soak: true, options: harness.ClusterOptions{Namespaces: namespaces, Nodes: 5}, do: func(r *run) {
		for i := range 5 {
			r.CutBoth([]int{1 + i}, []int{1 + (i+2)%5})
		}
		time.Sleep(20 * time.Second)
		r.Heal()
	}},
	"power_cut_of_one": {soak: true, options: harness.ClusterOptions{Disks: true, Args: []string{"--override", ackPolicy}}, do: func(r *run) {
		r.PowerCut(r.leader)
		r.flows()
		r.Restart(r.leader)
	}},
	"power_cut_of_all": {soak: true, options: harness.ClusterOptions{Disks: true, Args: []string{"--override", ackPolicy}}, do: func(r *run) {
		r.PowerCut(1, 2, 3)
		r.Restart(1, 2, 3)
	}},
	"full_disk": {soak: true, options: harness.ClusterOptions{Disks: true}, do: func(r *run) {
		free := r.Fill(r.leader)
		time.Sleep(10 * time.Second)
		r.Kill(r.leader) // a directory that failed stays offline until the process begins anew
		free()
		r.Restart(r.leader)
	}},
	"wiped_disk": {soak: true, do: func(r *run) {
		r.Kill(r.leader)
		r.Wipe(r.leader)
		r.flows()
		r.Restart(r.leader)
	}},
	"rolling_restart": {soak: true, do: func(r *run) {
		for id := 1; id <= 3; id++ {
			r.Stop(id)
			r.Restart(id)
			r.AwaitISRs(r.T)
			r.flows()
		}
	}},
}

// Whatever dies, nothing that was acknowledged is lost, nothing is there twice, and the order stays.
func TestScenarios(t *testing.T) {
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			if s.soak && !harness.Soak() {
				t.Skip("takes long: only in `make soak`")
			}
			s.run(t)
		})
	}
}

func (s scenario) run(t *testing.T) {
	python := harness.Python(t, "confluent-kafka") // the same packages
	r := &run{T: t, Cluster: harness.StartCluster(t, s.options)}
	for _, topic := range []string{"kgo", "librdkafka"} {
		r.CreateTopic(t, topic, partitions, 3, "min.insync.replicas", "2")
	}
	r.loads = []*harness.Load{harness.StartKgo(t, r.Cluster, "kgo", partitions), harness.StartLibrdkafka(t, r.Cluster, python, "load.py", "librdkafka", partitions)}
	r.flows()
	r.leader, r.controller = r.Leader(t, "kgo", 0), r.Controller(t)
	for p := range int32(partitions) {
		if id := r.Leader(t, "kgo", p); id != r.controller {
			r.other = id
		}
	}
	began := time.Now()
	s.do(r)
	healed := time.Now()
	r.flows()
	r.AwaitISRs(t)
	full := time.Since(healed)
	line := fmt.Sprintf("leader %d, controller %d, took %v, all flows and ISRs are full %v later", r.leader, r.controller, healed.Sub(began).Round(time.Second), full.Round(100*time.Millisecond))
	for _, l := range r.loads {
		line += fmt.Sprintf("; %s: %v", l.Name, l.Finish(t, r.Cluster))
	}
	t.Logf("figure: %s: %s", t.Name(), line)
}
