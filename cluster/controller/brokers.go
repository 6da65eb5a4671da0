package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// initialize gives a new cluster the dynamic default min.insync.replicas=1, as Kafka 4.4 does for clusters with ELR:
// then it is a fact of the cluster, and not of each node's file, what an ISR below the minimum is.
func (d *decision) initialize(c Initialize) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	if d.img.Index == 0 {
		value := "1"
		d.add(metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.BrokerResource}, Key: minInSyncReplicas, Value: &value})
	}
	return InitializeReply{}, nil
}

func wrongCluster(want, got string) error {
	return kafka.Errorf(kafka.InconsistentClusterID, "Expected cluster ID %s, but got cluster ID %s", want, got)
}

// registerBroker admits one incarnation of a broker (R8). The same incarnation again amends its registration and keeps
// its epoch. Another one begins fenced, and its predecessor's part in every ISR ends: what it had, the new one may have to
// prove (R7).
func (d *decision) registerBroker(c RegisterBroker) (Reply, error) {
	if c.ClusterID != d.img.ClusterID {
		return nil, wrongCluster(d.img.ClusterID, c.ClusterID)
	}
	existing, known := d.img.Brokers.ByID(c.Broker)
	same := known && existing.Incarnation == c.Incarnation
	if known && !same && d.leases.Live(c.Broker, d.now) {
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
	if same {
		reg.Epoch, reg.Fenced, reg.InControlledShutdown = existing.Epoch, existing.Fenced, existing.InControlledShutdown
		reply.Epoch = existing.Epoch
	} else if known {
		d.leaveISRs(c.Broker, c.PreviousEpoch != existing.Epoch)
	}
	d.add(metadata.RegisterBrokerRecord{BrokerRegistration: reg})
	return reply, nil
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

// incarnation finds the broker that a request names (R9).
func (d *decision) incarnation(id kafka.BrokerID, epoch kafka.BrokerEpoch) (*metadata.BrokerRegistration, error) {
	b, known := d.img.Brokers.ByID(id)
	if !known {
		return nil, kafka.Errorf(kafka.BrokerIDNotRegistered, "Broker ID %d is not currently registered", id)
	}
	if b.Epoch != epoch || epoch == metadata.EpochOfEntry {
		return nil, kafka.Errorf(kafka.StaleBrokerEpoch, "Expected broker epoch %d for broker %d, but got broker epoch %d", b.Epoch, id, epoch)
	}
	return b, nil
}

// brokerHeartbeat unfences a broker that wants it and has seen its own registration: only then does it know what it is to
// lead. It fences one that wants that.
func (d *decision) brokerHeartbeat(c BrokerHeartbeat) (Reply, error) {
	b, err := d.incarnation(c.Broker, c.Epoch)
	if err != nil {
		return nil, err
	}
	reply := BrokerHeartbeatReply{CaughtUp: c.MetadataOffset >= int64(b.Epoch), Fenced: b.Fenced}
	switch {
	case b.Fenced && !c.WantFence && reply.CaughtUp:
		reply.Fenced = false
		d.add(metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, InControlledShutdown: b.InControlledShutdown})
		if !b.InControlledShutdown {
			d.leadAgain(b)
		}
	case !b.Fenced && c.WantFence:
		reply.Fenced = true
		d.leaveISRs(b.ID, false)
		d.add(metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: true, InControlledShutdown: b.InControlledShutdown})
	}
	return reply, nil
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
