package controller

import (
	"math"
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// brokerHeartbeat takes a broker's state further, as it wants and as it may: Kafka's calculateNextBrokerState. Directories
// that failed go first, so that nothing is given to a broker that it cannot hold.
func (d *decision) brokerHeartbeat(c BrokerHeartbeat) (Reply, error) {
	b, err := d.incarnation(c.Broker, c.Epoch)
	if err != nil {
		return nil, err
	}
	b = d.directoriesFailed(b, c.OfflineDirs)
	reply := BrokerHeartbeatReply{CaughtUp: c.MetadataOffset >= int64(b.Epoch), Fenced: b.Fenced}
	switch {
	case c.WantShutDown && (b.Fenced || c.WantFence):
		reply.ShouldShutDown = true
	case b.InControlledShutdown && b.Fenced: // a shutdown ends with the process only
	case b.Fenced:
		if !c.WantFence && reply.CaughtUp && len(b.Directories) > 0 {
			d.unfence(b)
			reply.Fenced = false
		}
	case c.WantFence:
		d.fence(b)
		reply.Fenced = true
	case b.InControlledShutdown:
		reply.ShouldShutDown = d.othersKnow(b) // it leads nothing since it began, and gets nothing to lead
	case c.WantShutDown && d.leadsAny(b.ID):
		d.beginShutdown(b)
	case c.WantShutDown:
		reply.ShouldShutDown = true // no client and no follower notices
	}
	if reply.ShouldShutDown {
		d.endShutdown(b)
		reply.Fenced = true
	}
	return reply, nil
}

// directoriesFailed takes directories out of a registration and returns what is left of it. A broker that loses its
// last one is fenced until it starts anew.
func (d *decision) directoriesFailed(b *metadata.BrokerRegistration, failed []kafka.DirectoryID) *metadata.BrokerRegistration {
	reg := *b
	reg.Directories = slices.DeleteFunc(slices.Clone(b.Directories), func(dir kafka.DirectoryID) bool { return slices.Contains(failed, dir) })
	if len(reg.Directories) == len(b.Directories) {
		return b
	}
	d.setDirectories(b, reg)
	d.settle()
	b, _ = d.img.Brokers.ByID(b.ID)
	return b
}

// unfence lets a broker lead that has seen its own registration: only then does it know what it is to lead.
func (d *decision) unfence(b *metadata.BrokerRegistration) {
	d.add(metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch})
	d.settle()
	d.electForLeaderless()
}

func (d *decision) fence(b *metadata.BrokerRegistration) {
	d.leaveISRs(b.ID, false)
	d.add(metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: true, InControlledShutdown: b.InControlledShutdown})
}

// beginShutdown moves everything away from a broker that still serves. Where it is the last one in the ISR, the
// partition has no leader until it is back; the ELR keeps it eligible.
func (d *decision) beginShutdown(b *metadata.BrokerRegistration) {
	d.leaveISRs(b.ID, false)
	d.add(metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, InControlledShutdown: true})
}

func (d *decision) endShutdown(b *metadata.BrokerRegistration) {
	if b.Fenced && b.InControlledShutdown {
		return
	}
	d.leaveISRs(b.ID, false)
	d.add(metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: true, InControlledShutdown: true})
}

// othersKnow reports whether every other active broker has published an image in which b leads nothing any more. Until then
// clients are sent to b, or find that nobody leads.
func (d *decision) othersKnow(b *metadata.BrokerRegistration) bool {
	left, noted := d.leases.left[b.ID]
	if !noted { // this heartbeat is the first one since; img holds what was decided, and perhaps more
		left = d.img.Index
	}
	lowest := int64(math.MaxInt64)
	for other := range d.img.Brokers.All() {
		if other.ID == b.ID || !other.Active() {
			continue
		}
		offset, heard := d.leases.MetadataOffset[other.ID]
		if !heard {
			return false
		}
		lowest = min(lowest, offset)
	}
	return lowest >= left
}

// fenceBrokers fences those whose session is over, one at a time, each on what the one before left behind: so it is the last
// one of an ISR that is waited for. All of it is one entry, and only what comes out in the end is ever seen.
func (d *decision) fenceBrokers() Reply {
	var reply FenceBrokersReply
	for i, b := range d.leases.overdue(d.img, d.now) {
		if i > 0 {
			d.settle()
		}
		d.fence(b)
		reply.Fenced = append(reply.Fenced, FencedBroker{b.ID, b.Incarnation})
	}
	return reply
}
