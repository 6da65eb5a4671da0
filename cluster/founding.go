package cluster

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Hello is what nodes tell each other before they belong to a cluster, and what a node that belongs to one answers.
type Hello struct {
	Member     metadata.QuorumMember
	Controller bool     // it is one of the controllers by its settings
	Voters     []string // addresses of those that found the cluster, by its settings; sorted
	ClusterID  string   // of its cluster; before there is one, what it is told to call it, or empty

	// Founded says that it belongs to a cluster already. Founders founded that; only who took part and has not been started again
	// since tells. Members are those that may lead it now.
	Founded           bool
	Founders, Members []metadata.QuorumMember
}

// Founding is what a node without a metadata log is to do next. Unless it is to wait, ClusterID is settled.
type Founding struct {
	Wait      string                  // for whom or what; empty where the rest counts
	ClusterID string                  // empty: whoever founds draws one
	Founders  []metadata.QuorumMember // it is one of these, and opens its log as one
	Join      []metadata.QuorumMember // it joins, as a learner, by these, which belong to the cluster
}

// DecideFounding says what a node does about the cluster that it founds with others, or finds (KIP-853 leaves that to the
// operator). heard are the answers by address, one for each of self.Voters; nil where there is none yet. One of them may be
// the node's own, since it may not know which of the addresses is its own.
//
// Whoever meets a cluster belongs to it: to its voters where it was named when that was founded, else as a learner. Where
// all have answered and none belongs to a cluster, the one with the lowest node id founds it with exactly those, and the
// others wait until it has. So there are never two: whoever founds has heard from everybody that nobody else did, and only
// one of those that heard it may.
//
// An error is a contradiction between nodes' settings, which waiting does not heal: INVALID_CONFIG or
// INCONSISTENT_CLUSTER_ID.
func DecideFounding(self Hello, heard map[string]*Hello) (Founding, error) {
	var missing []string
	members := []metadata.QuorumMember{}
	clusterID := self.ClusterID
	for _, address := range self.Voters {
		h := heard[address]
		if h == nil {
			missing = append(missing, address)
			continue
		}
		if h.ClusterID != "" && clusterID != "" && h.ClusterID != clusterID {
			return Founding{}, kafka.Errorf(kafka.InconsistentClusterID, "node %d at %s is of cluster %s, and this node %d of cluster %s",
				h.Member.Node, address, h.ClusterID, self.Member.Node, clusterID)
		}
		if clusterID == "" {
			clusterID = h.ClusterID
		}
		if h.Founded {
			return self.follow(h, heard), nil
		}
		if err := self.agrees(h, address); err != nil {
			return Founding{}, err
		}
		if !slices.Contains(members, h.Member) {
			members = append(members, h.Member)
		}
	}
	return self.foundWith(members, missing, clusterID)
}

// follow is what to do about a cluster that there is. Who joins it knows nobody but those that it is given here, until it has a
// log: so they must be all that anybody named, whoever answered first. Perhaps only one of them leads, and that changes.
func (h Hello) follow(other *Hello, heard map[string]*Hello) Founding {
	for _, m := range other.Founders {
		if m.RaftID == h.Member.RaftID {
			return Founding{ClusterID: other.ClusterID, Founders: other.Founders}
		}
	}
	contacts := []metadata.QuorumMember{other.Member}
	add := func(m metadata.QuorumMember) {
		known := func(c metadata.QuorumMember) bool { return c.RaftID == m.RaftID }
		if !slices.ContainsFunc(contacts, known) {
			contacts = append(contacts, m)
		}
	}
	for _, m := range slices.Concat(other.Founders, other.Members) {
		add(m)
	}
	for _, address := range h.Voters {
		if also := heard[address]; also != nil && also.Founded && also.ClusterID == other.ClusterID {
			add(also.Member)
		}
	}
	return Founding{ClusterID: other.ClusterID, Join: contacts}
}

// agrees checks that another node without a cluster wants to found the same one.
func (h Hello) agrees(other *Hello, address string) error {
	switch {
	case !other.Controller:
		return kafka.Errorf(kafka.InvalidConfig, "node %d at %s is among the voters %s, and its process.roles is broker alone",
			other.Member.Node, address, strings.Join(h.Voters, ","))
	case !slices.Equal(other.Voters, h.Voters):
		return kafka.Errorf(kafka.InvalidConfig, "the nodes that found a cluster must all name the same voters: node %d at %s names %s, and this node %d names %s",
			other.Member.Node, address, strings.Join(other.Voters, ","), h.Member.Node, strings.Join(h.Voters, ","))
	case other.Member.Node == h.Member.Node && other.Member.Directory != h.Member.Directory:
		return kafka.Errorf(kafka.InvalidConfig, "the node at %s has the id %d, as this node has; every node needs a node.id of its own", address, other.Member.Node)
	}
	return nil
}

// foundWith decides when nobody that answered belongs to a cluster.
func (h Hello) foundWith(members []metadata.QuorumMember, missing []string, clusterID string) (Founding, error) {
	slices.SortFunc(members, func(a, b metadata.QuorumMember) int { return int(a.Node) - int(b.Node) })
	for i := 1; i < len(members); i++ {
		if members[i-1].Node == members[i].Node {
			return Founding{}, kafka.Errorf(kafka.InvalidConfig, "the nodes at %s and %s both have the id %d; every node needs a node.id of its own",
				address(members[i-1]), address(members[i]), members[i].Node)
		}
	}
	named := slices.ContainsFunc(members, func(m metadata.QuorumMember) bool { return m.RaftID == h.Member.RaftID })
	switch {
	case len(missing) > 0:
		return Founding{Wait: "for an answer from " + strings.Join(missing, ", ")}, nil
	case !named:
		return Founding{Wait: "for " + strings.Join(h.Voters, ", ") + " to found the cluster"}, nil
	case members[0].RaftID != h.Member.RaftID:
		return Founding{Wait: fmt.Sprintf("for node %d at %s to found the cluster", members[0].Node, address(members[0]))}, nil
	}
	return Founding{ClusterID: clusterID, Founders: members}, nil
}

func address(m metadata.QuorumMember) string {
	return net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port)))
}
