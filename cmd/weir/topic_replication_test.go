package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestPlanReplication(t *testing.T) {
	text := func(moves []move) string {
		var lines []string
		for _, m := range moves {
			lines = append(lines, fmt.Sprintf("%s-%d %s>%s", m.Topic, m.Partition, joinIDs(m.From), joinIDs(m.To)))
		}
		return strings.Join(lines, " ")
	}
	outOfSync := viewOf(nodesOf("", "", "", ""), map[string][][]int32{"t": {{1, 2, 3, 4}}})
	outOfSync.topics["t"].Partitions[0] = kadm.PartitionDetail{Topic: "t", Leader: 2, Replicas: []int32{1, 2, 3, 4}, ISR: []int32{2, 4}}
	for name, c := range map[string]struct {
		view   *clusterView
		factor int
		want   string
	}{
		"more, where the fewest are":           {viewOf(nodesOf("", "", ""), map[string][][]int32{"t": {{1}, {1}, {2}}}), 2, "t-0 1>3,1 t-1 1>1,2 t-2 2>2,3"},
		"the preferred leaders are spread":     {viewOf(nodesOf("", "", ""), map[string][][]int32{"t": {{1}, {1}, {1}, {1}}}), 3, "t-0 1>2,1,3 t-1 1>3,2,1 t-2 1>1,2,3 t-3 1>1,2,3"},
		"in other racks":                       {viewOf(nodesOf("a", "a", "b", "c"), map[string][][]int32{"t": {{1}}, "u": {{3, 4}, {4, 3}}}), 3, "t-0 1>1,3,4"},
		"in the same one if there is no other": {viewOf(nodesOf("a", "a", "b"), map[string][][]int32{"t": {{1}}}), 3, "t-0 1>1,3,2"},
		"fewer, the last ones":                 {viewOf(nodesOf("", "", ""), map[string][][]int32{"t": {{3, 1, 2}, {2}}}), 1, "t-0 3,1,2>3"},
		"those that are not in sync":           {outOfSync, 2, "t-0 1,2,3,4>2,4"},
		"nothing to do":                        {viewOf(nodesOf("", ""), map[string][][]int32{"t": {{2, 1}}}), 2, ""},
	} {
		moves, err := c.view.planReplication([]string{"t", "t"}, c.factor, nil)
		if err != nil || text(moves) != c.want {
			t.Errorf("%s: %q, %v; want %q", name, text(moves), err, c.want)
		}
	}
}

func TestPlanReplicationRefuses(t *testing.T) {
	nodes := nodesOf("", "", "")
	nodes[2].State = stateFenced
	v := viewOf(nodes, map[string][][]int32{"t": {{1, 2}, {1, 2}}, "offline": {{3}}})
	v.topics["offline"].Partitions[0] = kadm.PartitionDetail{Topic: "offline", Leader: -1, Replicas: []int32{3}}
	moving := []kadm.ListPartitionReassignmentsResponse{{Topic: "t", Partition: 1}}
	for topic, c := range map[string]struct {
		factor int
		want   string
	}{
		"t":       {3, "nothing was changed: 2 nodes are up, and t[0] can have 2 replicas, t[1] is being moved"},
		"offline": {2, "nobody leads offline[0]"},
		"unknown": {2, "there is no such topic"},
	} {
		moves, err := v.planReplication([]string{topic}, c.factor, moving)
		if err == nil || moves != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", topic, moves, err, c.want)
		}
	}
}

func TestPendingReplicas(t *testing.T) {
	v := viewOf(nodesOf("", "", ""), map[string][][]int32{"t": {{1, 2}, {1, 3}, {1, 2}}})
	moves := []move{{Topic: "t", To: []int32{1, 2}}, {Topic: "t", Partition: 1, To: []int32{1, 2}}, {Topic: "t", Partition: 2, To: []int32{1, 2}}, {Topic: "deleted", To: []int32{1}}}
	moving := []kadm.ListPartitionReassignmentsResponse{{Topic: "t", Partition: 2, AddingReplicas: []int32{2}}}
	if got := v.countPending(moves, moving); got != 2 {
		t.Errorf("%d", got)
	}
}
