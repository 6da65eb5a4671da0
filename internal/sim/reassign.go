package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// reassign gives a partition other replicas, or takes that back while it is under way.
func (s *simulation) reassign(rng *rand.Rand) bool {
	topics := slices.Collect(s.newest.Topics.All())
	if len(topics) == 0 {
		return false
	}
	t := topics[rng.IntN(len(topics))]
	i := int32(rng.IntN(len(t.Partitions)))
	p := t.Partition(i)
	r := controller.Reassignment{Topic: t.Name, Partition: i}
	if slices.ContainsFunc(s.nodes, func(n *node) bool { return n.removing }) {
		return false // an operator who removes a node gives it nothing meanwhile
	}
	if len(p.Adding)+len(p.Removing) == 0 || chance(rng, 0.5) {
		if r.Replicas = s.otherReplicas(p, s.minISR(s.newest, t.Name), rng); r.Replicas == nil {
			return false
		}
	}
	s.w.tracef("%s-%d is to have the replicas %v", t.Name, i, r.Replicas)
	cmd := controller.AlterReassignments{Partitions: []controller.Reassignment{r}, AllowFactorChange: true}
	tries := 0
	s.reassigning++
	s.admin.submit(func() controller.Command { tries++; return cmd }, func(reply controller.Reply, _ error) {
		if tries == 1 {
			s.reassigning--
		} else { // an earlier one may come true though nobody waits for its answer
			s.w.after(submitLimit, func() { s.reassigning-- })
		}
		s.w.tracef("admin: reassign %s-%d: %v", t.Name, i, reply.(controller.AlterReassignmentsReply).Partitions[0].Code)
	})
	return true
}

// otherReplicas draws replicas for a partition: one more, one less, another one, or the same in another order. There are never
// fewer than the minimum of the ISR. nil: there is no such choice.
func (s *simulation) otherReplicas(p *metadata.PartitionRegistration, minISR int, rng *rand.Rand) []kafka.BrokerID {
	var target, others []kafka.BrokerID
	for _, n := range s.nodes {
		switch {
		case !p.HasReplica(n.id) || slices.Contains(p.Removing, n.id):
			others = append(others, n.id)
		default:
			target = append(target, n.id)
		}
	}
	rng.Shuffle(len(target), func(i, j int) { target[i], target[j] = target[j], target[i] })
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	switch rng.IntN(4) {
	case 0:
		if len(others) == 0 {
			return nil
		}
		return append(target, others[0])
	case 1:
		if len(target) <= max(minISR, 1) {
			return nil
		}
		return target[1:]
	case 2:
		if len(others) == 0 || len(target) == 0 {
			return nil
		}
		target[0] = others[0]
	}
	return target
}

// submitLimit is how long brokers try to have a command decided.
const submitLimit = time.Minute

// beingMoved reports whether a node gets or loses replicas, or may.
func (s *simulation) beingMoved(n *node) bool {
	for _, p := range n.replicas(s.newest) {
		if len(p.Adding)+len(p.Removing) > 0 {
			return true
		}
	}
	return s.reassigning > 0
}

// countReassignment counts what became of a reassignment.
func (s *simulation) countReassignment(old, now *metadata.PartitionRegistration) {
	if len(old.Adding)+len(old.Removing) == 0 || len(now.Adding)+len(now.Removing) > 0 {
		return
	}
	lacks := func(id kafka.BrokerID) bool { return !now.HasReplica(id) }
	switch {
	case slices.ContainsFunc(old.Adding, lacks) || len(old.Adding) == 0 && !slices.ContainsFunc(old.Removing, lacks):
		s.rare.count(rareReassignmentCancelled)
	case slices.Contains(old.Removing, old.Leader):
		s.rare.count(rareReassignedLeader)
		fallthrough
	default:
		if !s.healed {
			s.rare.count(rareReassigned)
		}
	}
}
