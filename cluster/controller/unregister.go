package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// UnregisterBroker ends the registration of a broker, and its part in every ISR and ELR. It may register again as long as it is
// a member of the quorum. Errors: BROKER_ID_NOT_REGISTERED.
type UnregisterBroker struct{ Broker kafka.BrokerID }

// UnregisterBrokerReply has nothing to say.
type UnregisterBrokerReply struct{}

// RemoveMember removes a node with its directory from the cluster for good: the member of the quorum, and its broker where the
// directory is one of the broker's or no other member has the node id. A node that is alive is removed as well. The directories
// are never let in again; the node id is, for whoever is configured with it. Errors: INCONSISTENT_CLUSTER_ID, VOTER_NOT_FOUND,
// INVALID_REQUEST (nobody else is in the quorum, or the directory is another broker's).
type RemoveMember struct {
	ClusterID string
	Node      kafka.BrokerID
	Directory kafka.DirectoryID // of its metadata log
}

// RemoveMemberReply has nothing to say.
type RemoveMemberReply struct{}

func (UnregisterBroker) command() {}
func (RemoveMember) command()     {}

func (UnregisterBrokerReply) reply() {}
func (RemoveMemberReply) reply()     {}

func (d *decision) unregisterBroker(c UnregisterBroker) (Reply, error) {
	b, known := d.img.Brokers.ByID(c.Broker)
	if !known {
		return nil, kafka.Errorf(kafka.BrokerIDNotRegistered, "Broker ID %d is not currently registered", c.Broker)
	}
	d.unregister(b, false)
	d.use(b.ID)
	return UnregisterBrokerReply{}, nil
}

// unregister ends a registration. What the broker's logs have is not known any more when it comes back: so it leaves every ELR
// too, as Kafka has it at the latest when the broker registers again. lost says that they will not come back.
func (d *decision) unregister(b *metadata.BrokerRegistration, lost bool) {
	d.leave(departure{broker: b.ID, lossy: true, moved: lost})
	d.add(metadata.UnregisterBrokerRecord{ID: b.ID, Epoch: b.Epoch})
}

// use has a node id never be given again.
func (d *decision) use(id kafka.BrokerID) {
	if !d.img.Nodes.Used(id) {
		d.add(metadata.NodeRecord{ID: id})
	}
}

func (d *decision) removeMember(c RemoveMember) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	node, joined := d.img.Nodes.ByDirectory(c.Directory)
	joined = joined && node.ID == c.Node
	if joined && node.Removed {
		return RemoveMemberReply{}, nil
	}
	gone, twins := d.members(c)
	if !joined && !slices.ContainsFunc(gone, func(m metadata.QuorumMember) bool { return m.Node == c.Node }) || c.Directory.IsZero() {
		return nil, kafka.Errorf(kafka.VoterNotFound, "Node %d with directory %s is no member of this cluster.", c.Node, c.Directory)
	}
	if len(gone) > 0 && len(gone) == d.img.Quorum.Len() {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Node %d with directory %s is the only member of the quorum.", c.Node, c.Directory)
	}
	for b := range d.img.Brokers.All() {
		if b.ID != c.Node && slices.Contains(b.Directories, c.Directory) {
			return nil, kafka.Errorf(kafka.InvalidRequest, "Broker %d is registered with directory %s, and not node %d.", b.ID, c.Directory, c.Node)
		}
	}
	d.forget(c, gone, twins)
	return RemoveMemberReply{}, nil
}

// members are those of the quorum that have the directory of the node to remove, and its others, with other directories.
func (d *decision) members(c RemoveMember) (gone, twins []metadata.QuorumMember) {
	for m := range d.img.Quorum.All() {
		switch {
		case m.Directory == c.Directory:
			gone = append(gone, m)
		case m.Node == c.Node:
			twins = append(twins, m)
		}
	}
	return gone, twins
}

// forget removes a node as far as it is known by one directory.
func (d *decision) forget(c RemoveMember, gone, twins []metadata.QuorumMember) {
	directories := []kafka.DirectoryID{c.Directory}
	if b, registered := d.img.Brokers.ByID(c.Node); registered && (slices.Contains(b.Directories, c.Directory) || len(gone) > 0 && len(twins) == 0) {
		d.unregister(b, true)
		directories = append(directories, missing(b.Directories, directories)...)
	}
	for _, m := range gone {
		if m.Node != c.Node {
			d.use(m.Node)
		}
		d.add(metadata.RemoveQuorumMemberRecord{RaftID: m.RaftID})
	}
	d.settle()
	for _, dir := range directories {
		if _, taken := d.memberOf(dir); !taken { // by a twin, which stays
			d.add(metadata.NodeRecord{ID: c.Node, Directory: dir, Removed: true})
		}
	}
}

// Superseded returns the members of the quorum whose node has come back with another directory: the broker of that node is
// registered with the directory of another member, and not with theirs. They are to be removed. Whether they are gone it does
// not say of a node whose metadata log is in no directory of a broker: there an operator has to.
func Superseded(img *metadata.Image) (members []metadata.QuorumMember) {
	has := func(m metadata.QuorumMember) bool {
		b, registered := img.Brokers.ByID(m.Node)
		return registered && slices.Contains(b.Directories, m.Directory)
	}
	present := map[kafka.BrokerID]bool{}
	for m := range img.Quorum.All() {
		if has(m) {
			present[m.Node] = true
		}
	}
	for m := range img.Quorum.All() {
		if present[m.Node] && !has(m) {
			members = append(members, m)
		}
	}
	return members
}

// checkRemoved refuses a directory that was removed from the cluster.
func (d *decision) checkRemoved(dir kafka.DirectoryID) error { return CheckRemoved(d.img, dir) }

// CheckRemoved refuses a directory that was removed from the cluster, with INVALID_REGISTRATION. It never comes back, so any node
// may say so, by whatever image it has.
func CheckRemoved(img *metadata.Image, dir kafka.DirectoryID) error {
	if node, known := img.Nodes.ByDirectory(dir); known && node.Removed {
		return kafka.Errorf(kafka.InvalidRegistration,
			"Node %d was removed from the cluster with directory %s. Start it with an empty data directory and --join to have it come as a new node.", node.ID, dir)
	}
	return nil
}
