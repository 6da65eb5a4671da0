package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// Reading from the nearest replica (KIP-392): any replica answers consumers up to the high watermark that it knows. Where
// replica.selector.class has the leader look at racks, it sends consumers that say where they are (client.rack) to a follower
// there.

// anyReplicaSince is the version of Fetch from which on consumers are served by followers: with it came the rack, and an answer
// that can name another replica.
const anyReplicaSince = 11

// nearConsumer tells which brokers are in the consumer's rack, reachable by the listener that it came in on; nil where the
// leader is to be read from: it does not look at racks, or is as near.
func (h *Handlers) nearConsumer(r *Request, req *kmsg.FetchRequest) func(kafka.BrokerID) bool {
	if !h.Config.Replication.RackAware || req.Version < anyReplicaSince || fetcher(req) >= 0 || req.Rack == "" {
		return nil
	}
	near := func(id kafka.BrokerID) bool {
		e, ok := liveEndpoint(h.Image(), id, r.Conn.Listener)
		return ok && e.rack == req.Rack
	}
	if near(h.Self) {
		return nil
	}
	return near
}
