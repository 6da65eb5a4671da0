package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// JoinNode asks for the id of a node that is to join the cluster, before it registers as a member. It is repeated without
// effect: a directory keeps its node. Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (Node is alive with other
// directories), INVALID_REGISTRATION (the directory was removed from the cluster, or is another node's), INVALID_REQUEST.
type JoinNode struct {
	ClusterID string
	Directory kafka.DirectoryID // of its metadata log
	Node      kafka.BrokerID    // that it is configured with; NoBroker: the lowest id from 1 on that was never used
}

// JoinNodeReply is the id of the node.
type JoinNodeReply struct{ Node kafka.BrokerID }

// SetGossipKey gives a cluster the key that its members gossip with. It has no effect where there is one. Errors:
// INVALID_REQUEST (not 32 bytes).
type SetGossipKey struct{ Key metadata.GossipKey }

// SetGossipKeyReply has nothing to say.
type SetGossipKeyReply struct{}

func (JoinNode) command()     {}
func (SetGossipKey) command() {}

func (JoinNodeReply) reply()     {}
func (SetGossipKeyReply) reply() {}

func (d *decision) joinNode(c JoinNode) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	if isReserved(c.Directory) || c.Node < kafka.NoBroker {
		return nil, kafka.Errorf(kafka.InvalidRequest, "A node cannot have the id %d and the directory %s.", c.Node, c.Directory)
	}
	if err := d.checkRemoved(c.Directory); err != nil {
		return nil, err
	}
	if id, known := d.nodeOf(c.Directory); known {
		if c.Node != kafka.NoBroker && c.Node != id {
			return nil, kafka.Errorf(kafka.InvalidRegistration, "Directory %s is that of node %d; it cannot join as node %d.", c.Directory, id, c.Node)
		}
		return JoinNodeReply{Node: id}, nil
	}
	id := c.Node
	if id == kafka.NoBroker {
		id = d.unusedNode()
	} else if err := d.checkTaken(id); err != nil {
		return nil, err
	}
	d.add(metadata.NodeRecord{ID: id, Directory: c.Directory})
	return JoinNodeReply{Node: id}, nil
}

// nodeOf finds the node that a directory is of.
func (d *decision) nodeOf(dir kafka.DirectoryID) (kafka.BrokerID, bool) {
	if m, known := d.memberOf(dir); known {
		return m.Node, true
	}
	for b := range d.img.Brokers.All() {
		if slices.Contains(b.Directories, dir) {
			return b.ID, true
		}
	}
	node, known := d.img.Nodes.ByDirectory(dir)
	return node.ID, known
}

// memberOf finds the member of the quorum that a directory is of.
func (d *decision) memberOf(dir kafka.DirectoryID) (metadata.QuorumMember, bool) {
	for m := range d.img.Quorum.All() {
		if m.Directory == dir {
			return m, true
		}
	}
	return metadata.QuorumMember{}, false
}

// unusedNode is the lowest id from 1 on that no node has, or ever had.
func (d *decision) unusedNode() kafka.BrokerID {
	members := map[kafka.BrokerID]bool{}
	for m := range d.img.Quorum.All() {
		members[m.Node] = true
	}
	for id := kafka.BrokerID(1); ; id++ {
		if _, registered := d.img.Brokers.ByID(id); !registered && !members[id] && !d.img.Nodes.Used(id) {
			return id
		}
	}
}

// checkTaken refuses a node id that somebody else has. A broker's takes over whoever comes when it is not alive: that is the
// same machine with a new disk. Of a member of the quorum that is no broker nobody knows whether it is alive.
func (d *decision) checkTaken(id kafka.BrokerID) error {
	if b, registered := d.img.Brokers.ByID(id); registered {
		// One that is unfenced counts though this controller has not heard of it yet: here there is time.
		if !b.InControlledShutdown && (!b.Fenced || d.leases.live(b, d.now)) {
			return kafka.Errorf(kafka.DuplicateBrokerRegistration, "Another broker is registered with that broker id.")
		}
		return nil
	}
	for m := range d.img.Quorum.All() {
		if m.Node == id {
			return kafka.Errorf(kafka.DuplicateBrokerRegistration, "Node %d is a member of this cluster with directory %s; another one cannot join with its id before that is removed.",
				id, m.Directory)
		}
	}
	return nil
}

func (d *decision) setGossipKey(c SetGossipKey) (Reply, error) {
	if err := d.giveGossipKey(c.Key); err != nil {
		return nil, err
	}
	return SetGossipKeyReply{}, nil
}

// giveGossipKey gives a cluster its key, if it has none.
func (d *decision) giveGossipKey(key metadata.GossipKey) error {
	if len(key) != metadata.GossipKeySize {
		return kafka.Errorf(kafka.InvalidRequest, "A gossip key has %d bytes, not %d.", metadata.GossipKeySize, len(key))
	}
	if d.img.GossipKey == nil {
		d.add(metadata.GossipKeyRecord{Key: key})
	}
	return nil
}
