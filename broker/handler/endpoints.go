package handler

import (
	"errors"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// The operations that a principal may do where no authorizer says otherwise: bit n for the operation with code n
// (KIP-430).
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11 // read write create delete alter describe describe-configs alter-configs
	groupOperations   = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11                      // read delete describe describe-configs alter-configs
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12       // create alter describe cluster-action describe-configs alter-configs idempotent-write
)

// address is where a broker is reached by one listener.
type address struct {
	metadata.Endpoint
	rack string
}

// endpoint finds a broker's address for the listener that a request came in on.
func endpoint(img *metadata.Image, id kafka.BrokerID, listener string) (address, bool) {
	b, ok := img.Brokers.ByID(id)
	if !ok {
		return address{}, false
	}
	e, ok := b.Endpoint(listener)
	return address{e, b.Rack}, ok
}

// liveEndpoint is endpoint for a broker that is alive.
func liveEndpoint(img *metadata.Image, id kafka.BrokerID, listener string) (address, bool) {
	if b, ok := img.Brokers.ByID(id); !ok || b.Fenced {
		return address{}, false
	}
	return endpoint(img, id, listener)
}

// currentLeader is whom a client turns to when a partition refused it (KIP-951): the partition's own knowledge, which may be
// newer, comes before the image's.
func currentLeader(err error, p *metadata.PartitionRegistration) (kafka.BrokerID, kafka.LeaderEpoch) {
	var refused *replica.Error
	if errors.As(err, &refused) {
		return refused.Leader, refused.LeaderEpoch
	}
	return p.Leader, p.LeaderEpoch
}

func brokerIDs(ids []kafka.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// offlineReplicas lists the replicas on brokers that are not alive, or not reached by that listener, and those whose directory
// failed.
func offlineReplicas(img *metadata.Image, p *metadata.PartitionRegistration, listener string) []int32 {
	offline := []int32{}
	for _, id := range p.Replicas {
		b, ok := img.Brokers.ByID(id)
		if ok {
			_, ok = b.Endpoint(listener)
		}
		if !ok || b.Fenced || !b.HasDirectory(p) {
			offline = append(offline, int32(id))
		}
	}
	return offline
}

// controllerID is whom clients take for the controller: since every broker forwards what is for it, it is this one, as long
// as that is alive.
func (h *Handlers) controllerID(img *metadata.Image) int32 {
	if b, ok := img.Brokers.ByID(h.Self); ok && !b.Fenced {
		return int32(h.Self)
	}
	for b := range img.Brokers.All() {
		if !b.Fenced {
			return int32(b.ID)
		}
	}
	return int32(kafka.NoBroker)
}
