package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// move is where the replicas of one partition are to be.
type move struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
}

// planDrain says how a node comes to hold nothing: each of its replicas goes to the node that, among those that are up and have
// none of the partition, is in a rack with none of it, if there is such a rack, and holds the fewest. The order of preference
// stays, so that the new replica leads where the old one did. Nothing is planned at all where one partition has no place to go
// to, or nobody leads it, so that nobody could be copied from: the error names them. With leaveOffline the latter are passed over.
// What is leaving the node already is left alone.
func (v *clusterView) planDrain(node int32, moving []kadm.ListPartitionReassignmentsResponse, leaveOffline bool) ([]move, error) {
	load := make(map[int32]int)
	for _, n := range v.nodes {
		load[n.Node] = n.Replicas
	}
	var moves []move
	var stuck, offline []string
	for _, t := range v.topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			at := slices.Index(p.Replicas, node)
			if at < 0 || leaves(moving, t.Topic, p.Partition, node) {
				continue
			}
			if p.Leader < 0 {
				offline = append(offline, fmt.Sprintf("%s[%d]", t.Topic, p.Partition))
				continue
			}
			to, found := v.place(p, node, load)
			if !found {
				reason := fmt.Sprintf("%s has %d replicas", t.Topic, len(p.Replicas))
				if !slices.Contains(stuck, reason) {
					stuck = append(stuck, reason)
				}
				continue
			}
			load[to]++
			load[node]--
			target := slices.Clone(p.Replicas)
			target[at] = to
			moves = append(moves, move{t.Topic, p.Partition, p.Replicas, target})
		}
	}
	if stuck != nil {
		return nil, fmt.Errorf("node %d cannot be drained, and nothing was moved: without it %d nodes are up, and %s; let another node join first, or give these topics fewer replicas",
			node, v.upWithout(node), strings.Join(stuck, ", "))
	}
	if offline != nil && !leaveOffline {
		return nil, fmt.Errorf("node %d cannot be drained, and nothing was moved: nobody leads %s, so nobody has the records to copy; start the node that has them, or move the rest with --leave-offline",
			node, strings.Join(offline, ", "))
	}
	return moves, nil
}

func (v *clusterView) upWithout(node int32) (count int) {
	for _, n := range v.nodes {
		if n.up() && n.Node != node {
			count++
		}
	}
	return count
}

// place chooses the node for a replica that leaves another one.
func (v *clusterView) place(p kadm.PartitionDetail, leaving int32, load map[int32]int) (to int32, found bool) {
	racks := make(map[string]bool)
	for _, id := range p.Replicas {
		if n := v.node(id); n != nil && id != leaving {
			racks[n.Rack] = true
		}
	}
	var candidates []*clusterNode
	for _, n := range v.nodes {
		if n.up() && n.Node != leaving && !slices.Contains(p.Replicas, n.Node) {
			candidates = append(candidates, n)
		}
	}
	if len(candidates) == 0 {
		return 0, false
	}
	taken := func(n *clusterNode) int {
		if racks[n.Rack] {
			return 1
		}
		return 0
	}
	best := slices.MinFunc(candidates, func(a, b *clusterNode) int {
		return cmp.Or(cmp.Compare(taken(a), taken(b)), cmp.Compare(load[a.Node], load[b.Node]), cmp.Compare(a.Node, b.Node))
	})
	return best.Node, true
}
