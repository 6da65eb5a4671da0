package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// initialize gives a new cluster the dynamic default min.insync.replicas=1, as Kafka 4.4 does for clusters with ELR:
// then it is a fact of the cluster, and not of each node's file, what an ISR below the minimum is. Once set it cannot be
// removed, so several founders may all ask for it, in whatever order their requests and registrations come.
func (d *decision) initialize(c Initialize) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	if _, done := d.img.Configs.BrokerDefault()[minInSyncReplicas]; !done {
		value := "1"
		d.add(metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.BrokerResource}, Key: minInSyncReplicas, Value: &value})
	}
	if c.GossipKey != nil {
		if err := d.giveGossipKey(c.GossipKey); err != nil {
			return nil, err
		}
	}
	return InitializeReply{}, nil
}

func wrongCluster(want, got string) error {
	return kafka.Errorf(kafka.InconsistentClusterID, "Expected cluster ID %s, but got cluster ID %s", want, got)
}

// registerBroker admits one incarnation of a broker. The same incarnation again amends its registration and keeps
// its epoch. Another one begins fenced, and its predecessor's part in every ISR ends: what it had, the new one may have to
// prove.
func (d *decision) registerBroker(c RegisterBroker) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	for _, dir := range c.Directories { // first: who was removed shall not wait for the end of somebody's session
		if err := d.checkRemoved(dir); err != nil {
			return nil, err
		}
	}
	existing, known := d.img.Brokers.ByID(c.Broker)
	same := known && existing.Incarnation == c.Incarnation
	// KAFKA-19047: who is shutting down may be replaced before its session is over; and so may who is gone for certain.
	if known && !same && !existing.InControlledShutdown && !c.succeeds(existing) && d.leases.live(existing, d.now) {
		return nil, kafka.Errorf(kafka.DuplicateBrokerRegistration, "Another broker is registered with that broker id.")
	}
	if err := d.checkDirectories(c); err != nil {
		return nil, err
	}
	reg := metadata.BrokerRegistration{
		ID: c.Broker, Epoch: metadata.EpochOfEntry, Incarnation: c.Incarnation, Listeners: c.Listeners, Rack: c.Rack,
		Fenced: true, Directories: c.Directories,
	}
	reply := RegisterBrokerReply{Epoch: metadata.EpochOfEntry}
	switch {
	case same:
		reply.Epoch = existing.Epoch
		d.amend(existing, reg)
		return reply, nil
	case known:
		d.leave(departure{broker: c.Broker, lossy: !c.continues(existing), moved: len(missing(existing.Directories, c.Directories)) > 0})
	}
	d.add(metadata.RegisterBrokerRecord{BrokerRegistration: reg})
	return reply, nil
}

// continues reports whether a broker has the logs of the registered incarnation whole.
func (c RegisterBroker) continues(existing *metadata.BrokerRegistration) bool {
	return c.PreviousEpoch == existing.Epoch || slices.Contains(c.PreviousIncarnations, existing.Incarnation)
}

// succeeds reports whether the registered incarnation is gone for certain, though its session may not be over: a process that was
// killed is back before anybody missed it. This one has its directories, which one process has at a time, on the machine that
// it ran on, which has not been down since; and its address, which a copy of these directories on that machine could not have.
func (c RegisterBroker) succeeds(existing *metadata.BrokerRegistration) bool {
	return slices.Contains(c.PreviousIncarnations, existing.Incarnation) &&
		slices.ContainsFunc(c.Listeners, func(e metadata.Endpoint) bool { return slices.Contains(existing.Listeners, e) })
}

// amend changes what an incarnation said of itself. A directory that failed it does not get back before it starts anew.
func (d *decision) amend(existing *metadata.BrokerRegistration, reg metadata.BrokerRegistration) {
	reg.Epoch, reg.Fenced, reg.InControlledShutdown = existing.Epoch, existing.Fenced, existing.InControlledShutdown
	reg.Directories = slices.DeleteFunc(slices.Clone(reg.Directories), func(dir kafka.DirectoryID) bool { return !slices.Contains(existing.Directories, dir) })
	d.setDirectories(existing, reg)
}

// setDirectories replaces a registration by one that has the same directories or fewer. The replicas in those that are gone
// leave the ISRs and the lead.
func (d *decision) setDirectories(existing *metadata.BrokerRegistration, reg metadata.BrokerRegistration) {
	gone := missing(existing.Directories, reg.Directories)
	if len(reg.Directories) == 0 {
		reg.Fenced, reg.Directories = true, nil // it can hold nothing any more
		d.leaveISRs(reg.ID, false)
	} else if len(gone) > 0 {
		d.leaveISRs(reg.ID, false, gone...)
	}
	d.add(metadata.RegisterBrokerRecord{BrokerRegistration: reg})
}

// missing are those of the directories that there were which are not there now.
func missing(were, are []kafka.DirectoryID) []kafka.DirectoryID {
	return slices.DeleteFunc(slices.Clone(were), func(dir kafka.DirectoryID) bool { return slices.Contains(are, dir) })
}

// Committed returns the reply once the index of the entry with the registration is known.
func (r RegisterBrokerReply) Committed(index int64) RegisterBrokerReply {
	if r.Epoch == metadata.EpochOfEntry {
		r.Epoch = kafka.BrokerEpoch(index)
	}
	return r
}

func (d *decision) checkDirectories(c RegisterBroker) error {
	if len(c.Directories) == 0 {
		return kafka.Errorf(kafka.InvalidRegistration, "No directories specified in request")
	}
	for i, dir := range c.Directories {
		if isReserved(dir) {
			return kafka.Errorf(kafka.InvalidRegistration, "Reserved directory ID in request")
		}
		if slices.Contains(c.Directories[:i], dir) {
			return kafka.Errorf(kafka.InvalidRegistration, "Duplicate directory ID in request")
		}
	}
	for b := range d.img.Brokers.All() {
		if b.ID == c.Broker {
			continue
		}
		for _, dir := range c.Directories {
			if slices.Contains(b.Directories, dir) {
				return kafka.Errorf(kafka.InvalidRegistration, "Broker %d is already registered with directory %s", b.ID, dir)
			}
		}
	}
	return nil
}

// isReserved reports whether an id is one of the first hundred, which Kafka keeps for meanings of its own (DirectoryId).
func isReserved(id kafka.UUID) bool {
	for _, b := range id[:15] {
		if b != 0 {
			return false
		}
	}
	return id[15] < 100
}

// incarnation finds the broker that a request names.
func (d *decision) incarnation(id kafka.BrokerID, epoch kafka.BrokerEpoch) (*metadata.BrokerRegistration, error) {
	return Incarnation(d.img, id, epoch)
}

// Incarnation finds a broker in an image. Errors: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH. From an image that is not older
// than the epoch these are final, since no registration comes back.
func Incarnation(img *metadata.Image, id kafka.BrokerID, epoch kafka.BrokerEpoch) (*metadata.BrokerRegistration, error) {
	b, known := img.Brokers.ByID(id)
	if !known {
		return nil, kafka.Errorf(kafka.BrokerIDNotRegistered, "Broker ID %d is not currently registered", id)
	}
	if b.Epoch != epoch || epoch == metadata.EpochOfEntry {
		return nil, kafka.Errorf(kafka.StaleBrokerEpoch, "Expected broker epoch %d for broker %d, but got broker epoch %d", b.Epoch, id, epoch)
	}
	return b, nil
}

// registerMember notes which node is behind a Raft id, and where it is reached. A node id belongs to one directory as long as
// its broker is alive, and a directory to one node: two processes that take themselves for the same node are told so.
func (d *decision) registerMember(c RegisterMember) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	m := c.Member
	if m.RaftID == 0 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "A member of the quorum has a Raft id that is not 0.")
	}
	if err := d.checkRemoved(m.Directory); err != nil {
		return nil, err
	}
	for other := range d.img.Quorum.All() {
		switch {
		case other == m:
			return RegisterMemberReply{}, nil
		case other.RaftID == m.RaftID && other.Directory != m.Directory:
			return nil, kafka.Errorf(kafka.InvalidRequest, "Raft id %d belongs to directory %s, not to %s.", m.RaftID, other.Directory, m.Directory)
		case (other.Node == m.Node) == (other.Directory == m.Directory):
			continue
		}
		// Whoever comes back on a new disk waits until the broker of the old one is fenced, also where nothing was heard of that
		// one since the controller changed: two members of one node, of which the other has the broker, would look as if the
		// newcomer were the one that is gone (Superseded).
		if b, known := d.img.Brokers.ByID(other.Node); known && slices.Contains(b.Directories, other.Directory) && (d.leases.live(b, d.now) || b.Active() && !slices.Contains(b.Directories, m.Directory)) {
			return nil, kafka.Errorf(kafka.DuplicateBrokerRegistration, "Node %d with directory %s is a member of this cluster and alive; node %d cannot join with directory %s.",
				other.Node, other.Directory, m.Node, m.Directory)
		}
	}
	if old, known := d.img.Quorum.ByRaftID(m.RaftID); known && old.Node != m.Node {
		d.use(old.Node)
	}
	if node, known := d.img.Nodes.ByDirectory(m.Directory); known && node.ID != m.Node {
		d.add(metadata.NodeRecord{ID: m.Node, Directory: m.Directory})
	}
	d.add(metadata.QuorumMemberRecord{Member: m})
	return RegisterMemberReply{}, nil
}

// producerIDBlock is the number of ids that a broker takes at once: Kafka's ProducerIdsBlock.
const producerIDBlock = 1000

func (d *decision) allocateProducerIDs(c AllocateProducerIDs) (Reply, error) {
	if _, err := d.incarnation(c.Broker, c.Epoch); err != nil {
		return nil, err
	}
	start := d.img.NextProducerID
	if start > 1<<63-1-producerIDBlock {
		return nil, kafka.Errorf(kafka.UnknownServerError, "Exhausted all producerIds as the next block's end producerId is will has exceeded int64 type limit")
	}
	d.add(metadata.ProducerIDsRecord{Next: start + producerIDBlock})
	return AllocateProducerIDsReply{Start: start, Count: producerIDBlock}, nil
}
