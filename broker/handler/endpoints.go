package handler

import (
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol"
)

// The operations that a principal may do where no authorizer says otherwise: bit n for the operation with code n
// (KIP-430).
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11 // read write create delete alter describe describe-configs alter-configs
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

// nodeEndpoint is the address as Fetch names it beside a current leader (KIP-951).
func (h *Handlers) nodeEndpoint(r *Request, id kafka.BrokerID) (protocol.NodeEndpoint, bool) {
	e, ok := endpoint(h.Image(), id, r.Conn.Listener)
	return protocol.NodeEndpoint{NodeID: int32(id), Host: e.Host, Port: int32(e.Port), Rack: nullable(e.rack)}, ok
}

func brokerIDs(ids []kafka.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// offlineReplicas lists the replicas on brokers that are not alive.
func offlineReplicas(img *metadata.Image, p *metadata.PartitionRegistration) []int32 {
	offline := []int32{}
	for _, id := range p.Replicas {
		if b, ok := img.Brokers.ByID(id); !ok || b.Fenced {
			offline = append(offline, int32(id))
		}
	}
	return offline
}
