package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// viewOf makes a cluster of nodes, each id with its rack and state, and of topics, a list of replicas for each partition.
func viewOf(nodes []*clusterNode, topics map[string][][]int32) *clusterView {
	v := &clusterView{id: "c", controller: 1, nodes: nodes, topics: make(kadm.TopicDetails)}
	for name, partitions := range topics {
		details := make(kadm.PartitionDetails)
		for i, replicas := range partitions {
			details[int32(i)] = kadm.PartitionDetail{Topic: name, Partition: int32(i), Leader: replicas[0], Replicas: replicas, ISR: replicas}
		}
		v.topics[name] = kadm.TopicDetail{Topic: name, Partitions: details}
	}
	v.countReplicas()
	return v
}

func nodesOf(racks ...string) (nodes []*clusterNode) {
	for i, rack := range racks {
		nodes = append(nodes, &clusterNode{Node: int32(i + 1), Rack: rack, State: stateUp})
	}
	return nodes
}

func TestPlanDrain(t *testing.T) {
	text := func(moves []move) string {
		var lines []string
		for _, m := range moves {
			lines = append(lines, fmt.Sprintf("%s-%d %s>%s", m.Topic, m.Partition, joinIDs(m.From), joinIDs(m.To)))
		}
		return strings.Join(lines, " ")
	}
	for _, c := range []struct {
		name   string
		nodes  []*clusterNode
		topics map[string][][]int32
		moving []kadm.ListPartitionReassignmentsResponse
		want   string
	}{
		{"the order of preference stays", nodesOf("", "", ""), map[string][][]int32{"t": {{1, 2}, {2, 1}, {2, 3}}}, nil, "t-0 1,2>3,2 t-1 2,1>2,3"},
		{"the node with the fewest is chosen", nodesOf("", "", "", ""), map[string][][]int32{"t": {{1}, {1}, {1}, {2}}}, nil, "t-0 1>3 t-1 1>4 t-2 1>2"},
		{"racks stay apart", nodesOf("a", "a", "b", "b"), map[string][][]int32{"t": {{3, 1}, {2}, {2}}}, nil, "t-0 3,1>3,2"},
		{"a rack twice where there is no other", nodesOf("a", "b", "b"), map[string][][]int32{"t": {{1, 2}}}, nil, "t-0 1,2>3,2"},
		{"what leaves already is left alone", nodesOf("", "", ""), map[string][][]int32{"t": {{1, 2}, {1, 2, 3}}},
			[]kadm.ListPartitionReassignmentsResponse{{Topic: "t", Partition: 1, RemovingReplicas: []int32{1}}}, "t-0 1,2>3,2"},
		{"nothing to do", nodesOf("", ""), map[string][][]int32{"t": {{2}}}, nil, ""},
	} {
		v := viewOf(c.nodes, c.topics)
		moves, err := v.planDrain(1, c.moving, false)
		if err != nil || text(moves) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, text(moves), err, c.want)
		}
	}
}

// A drain that cannot end does not begin.
func TestPlanDrainWithoutPlace(t *testing.T) {
	nodes := nodesOf("", "", "")
	nodes[2].State = stateFenced
	v := viewOf(nodes, map[string][][]int32{"small": {{1}}, "large": {{1, 2}, {2, 1}}})
	moves, err := v.planDrain(1, nil, true)
	if err == nil || moves != nil {
		t.Fatalf("planned %v, %v", moves, err)
	}
	for _, want := range []string{"node 1 cannot be drained, and nothing was moved", "1 nodes are up", "large has 2 replicas"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "small") || strings.Count(err.Error(), "large") != 1 {
		t.Errorf("%q names other topics than the one that is in the way, once", err)
	}
}

// What nobody leads cannot be copied: it is in the way unless the user says that it may stay.
func TestPlanDrainOffline(t *testing.T) {
	v := viewOf(nodesOf("", "", ""), map[string][][]int32{"t": {{1, 2}, {1}}})
	v.topics["t"].Partitions[1] = kadm.PartitionDetail{Topic: "t", Partition: 1, Leader: -1, Replicas: []int32{1}, ISR: []int32{1}}
	if moves, err := v.planDrain(1, nil, false); err == nil || moves != nil || !strings.Contains(err.Error(), "nobody leads t[1]") {
		t.Errorf("planned %v, %v", moves, err)
	}
	if moves, err := v.planDrain(1, nil, true); err != nil || len(moves) != 1 || moves[0].Partition != 0 {
		t.Errorf("planned %v, %v", moves, err)
	}
}

func TestClusterStatus(t *testing.T) {
	nodes := nodesOf("", "", "")
	nodes[0].Role, nodes[1].Role, nodes[2].Role = roleController, roleVoter, roleLearner
	topics := map[string][][]int32{"t": {{1, 2, 3}, {2, 3, 1}}}
	healthy := viewOf(nodes, topics).status(nil, 0)
	if !healthy.Healthy || !slices.Equal(healthy.Voters, []int32{1, 2}) || !slices.Equal(healthy.Learners, []int32{3}) || healthy.Partitions.All != 2 {
		t.Errorf("a healthy cluster is %+v", healthy)
	}

	nodes = nodesOf("", "", "")
	nodes[2].State, nodes[1].voteLost = stateFenced, true
	v := viewOf(nodes, topics)
	v.controller = -1
	v.topics["t"].Partitions[0] = kadm.PartitionDetail{Topic: "t", Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1}}
	v.topics["t"].Partitions[1] = kadm.PartitionDetail{Topic: "t", Partition: 1, Leader: -1, Replicas: []int32{3}, ISR: []int32{3}}
	s := v.status(map[string]int{"t": 2}, 1)
	if want := (partitionCount{All: 2, Offline: 1, UnderReplicated: 1, BelowMinISR: 1, Moving: 1}); s.Partitions != want || s.Healthy {
		t.Errorf("%+v, healthy=%t; want %+v", s.Partitions, s.Healthy, want)
	}
	for _, want := range []string{"node 3 is fenced", "node 2 came with another data directory", "no controller is active", "partitions offline: 1", "partitions below min.insync.replicas: 1", "partitions under-replicated: 1"} {
		if !strings.Contains(strings.Join(s.Problems, "\n"), want) {
			t.Errorf("the problems %q lack %q", s.Problems, want)
		}
	}
}

func TestRemovable(t *testing.T) {
	for _, c := range []struct {
		node clusterNode
		want string
	}{
		{clusterNode{Node: 3, State: stateFenced}, ""},
		{clusterNode{Node: 3, State: stateUnregistered}, ""},
		{clusterNode{Node: 3, State: stateUp}, "node 3 is up: stop it first"},
		{clusterNode{Node: 3, State: stateUp, Replicas: 2}, "drain 3"},
		{clusterNode{Node: 3, State: stateFenced, Replicas: 2}, "node 3 holds 2 replicas"},
	} {
		err := c.node.removable()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.node, err, c.want)
		}
	}
}
